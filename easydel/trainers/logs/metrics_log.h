// metrics.jsonl: one JSON object for each step, on disk as soon as it is written.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "easydel/core/json/json.h"

namespace easydel {

class MetricsLog {
 public:
  // A new run starts with an empty file. One that resumes from a step keeps the lines up to it: later ones, and an
  // incomplete last line, are removed by writing a new file and renaming it; unless `is_evaluated`, so is that step's
  // evaluation. IoError names the file.
  explicit MetricsLog(std::filesystem::path path, std::optional<int64_t> resume_step = std::nullopt,
                      bool is_evaluated = true);
  ~MetricsLog();
  MetricsLog(const MetricsLog&) = delete;
  MetricsLog& operator=(const MetricsLog&) = delete;

  // Appends {"step": step, …values}. Values may hold NaN and Infinity, which are written as Python writes them.
  void write(int64_t step, const Json& values);

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int fd_ = -1;
};

// What a log of lines with a step begins with, as MetricsLog does: nothing without `resume_step`, else its lines up to
// it.
void forget_later_lines(const std::filesystem::path& path, std::optional<int64_t> resume_step,
                        bool is_evaluated = true);
// The object of a line that is whole and has a step; null otherwise.
Json parse_metrics(const std::string& line);
// Its lines in order, without those that are not an object with a step, such as an incomplete last one.
std::vector<Json> read_metrics(const std::filesystem::path& path);

}  // namespace easydel

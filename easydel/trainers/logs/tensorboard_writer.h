// Scalars for TensorBoard: one event file for each run, readable while it grows.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace easydel {

using Scalars = std::vector<std::pair<std::string, double>>;

class TensorboardWriter {
 public:
  // Makes the directory and a file in it that no other run has. A run that resumes from a step makes TensorBoard
  // forget what earlier files say about later ones. IoError names the file.
  explicit TensorboardWriter(const std::filesystem::path& directory, std::optional<int64_t> resume_step = std::nullopt);
  ~TensorboardWriter();
  TensorboardWriter(const TensorboardWriter&) = delete;
  TensorboardWriter& operator=(const TensorboardWriter&) = delete;

  // One event; on its way to the disk when the call returns. Values are stored as float32, as TensorBoard does.
  void write(int64_t step, const Scalars& scalars);
  // A text under the tab TEXT, in Markdown: the run's config.
  void write_text(int64_t step, const std::string& tag, const std::string& text);

  const std::filesystem::path& path() const { return path_; }

 private:
  void write_event(std::optional<int64_t> step, const std::string& fields);

  std::filesystem::path path_;
  int fd_ = -1;
};

}  // namespace easydel

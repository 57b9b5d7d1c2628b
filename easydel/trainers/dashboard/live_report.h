// Reports of runs that may still go on, for a page that asks again and again.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "easydel/trainers/logs/metric_columns.h"

namespace easydel {

class LiveReport {
 public:
  // The first one's numbers and settings, and the curves of all. IoError for a directory without a metrics.jsonl.
  explicit LiveReport(std::vector<std::filesystem::path> runs);

  // Reads what was written since the last time, of metrics.jsonl only the new lines. True when something changed.
  bool refresh();
  int64_t version() const { return version_; }
  // The report's page without curves, which asks for `data?version=N` and draws them.
  std::string page() const;
  // An object: version, cards (HTML), runs and series as in a report, samples: what the model wrote last.
  std::string data() const;

 private:
  struct Run {
    std::filesystem::path directory;
    std::string name;
    uintmax_t read = 0;     // bytes of metrics.jsonl, up to the end of a line
    uint64_t file = 0;      // its inode: a run that resumes may replace it
    uintmax_t samples = 0;  // bytes of completions.jsonl
  };
  bool read_new_lines(std::size_t run);

  std::vector<Run> runs_;
  std::vector<MetricColumns> metrics_;  // of each run
  int64_t version_ = 0;
};

}  // namespace easydel

// A run's directory as a report: run.json says what ran where, metrics.jsonl what happened.
#pragma once

#include <filesystem>
#include <vector>

#include "easydel/core/json/json.h"
#include "easydel/trainers/logs/report.h"

namespace easydel {

constexpr const char* kRunFile = "run.json";

// The object of run.json; an empty one where there is none that can be read.
Json read_run_file(const std::filesystem::path& directory);

// The numbers that matter, with their labels, as text. `run` is the object of run.json.
Json summarize_run(const Json& run, const MetricColumns& metrics);

// What the model wrote last, the newest first: lines of completions.jsonl, and samples of metrics.jsonl.
Json last_samples(const std::filesystem::path& directory, const MetricColumns& metrics);

// IoError unless the directory has a metrics.jsonl.
void require_run(const std::filesystem::path& directory);
std::string run_label(const std::filesystem::path& directory);  // its name, without those it is in
// What run.json says, without metrics and their summary.
Report describe_run(const std::filesystem::path& directory);

// Writes `path` (empty: report.html in the directory, comparison.html where there are others) from what the directory
// holds, with the curves of other runs' directories for comparison, and returns it. Works during the run, and
// after it was killed. IoError without a metrics.jsonl.
std::filesystem::path write_run_report(const std::filesystem::path& directory,
                                       const std::vector<std::filesystem::path>& others = {},
                                       std::filesystem::path path = {});

}  // namespace easydel

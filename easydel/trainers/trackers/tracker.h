// A service that shows runs: it gets what metrics.jsonl gets, some lines at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "easydel/core/json/json.h"

namespace easydel {

struct TrainingArguments;

// The run that is shown.
struct TrackedRun {
  std::string id;  // letters and digits; the same when it resumes
  std::string name;
  Json config;  // an object
  std::string host;
  double started = 0;               // seconds since 1970, of its first start
  int64_t first_step = 0;           // where this start begins; 0: the run is new
  int64_t report_steps = 1;         // metrics of a step are shown every so many steps
  std::filesystem::path directory;  // of the run
  std::filesystem::path metrics;    // metrics.jsonl: what it did before
};

// A line of metrics.jsonl as trackers name its values: "train/loss", "eval/loss".
struct TrackedRow {
  int64_t step = 0;
  double time = 0;
  std::vector<std::pair<std::string, double>> values = {};
  Json previews = Json::array();  // of a line with generations: objects with prompt and completion
};

// Empty values: nothing of the line is shown.
TrackedRow tracked_row(const Json& line, int64_t report_steps);

// Used by one thread, which may call again what threw. An exception says what went wrong.
class Tracker {
 public:
  virtual ~Tracker() = default;
  virtual std::string name() const = 0;   // as in report_to
  virtual std::string where() const = 0;  // for people: project, run, and where they are found
  virtual void begin(const TrackedRun& run) = 0;
  virtual void log(const std::vector<TrackedRow>& rows) = 0;
  virtual void finish(bool succeeded) = 0;
  virtual std::chrono::milliseconds pause() const { return std::chrono::milliseconds(1000); }  // between two calls
};

// Of `arguments`; the request of one that talks to a server ends when `stop` says so. ConfigError where the environment
// lacks what a tracker needs, NotSupportedError where it asks for what there is not.
std::vector<std::unique_ptr<Tracker>> make_trackers(const TrainingArguments& arguments, const TrackedRun& run,
                                                    const std::stop_token& stop = {});

std::unique_ptr<Tracker> make_wandb_tracker(const TrainingArguments& arguments, const TrackedRun& run);
std::unique_ptr<Tracker> make_mlflow_tracker(const TrainingArguments& arguments, const TrackedRun& run,
                                             std::stop_token stop);
std::unique_ptr<Tracker> make_trackio_tracker(const TrainingArguments& arguments, const TrackedRun& run);

// What is set: the argument, else the variable, else `otherwise`.
std::string chosen(const std::optional<std::string>& argument, const char* variable, const std::string& otherwise);
std::string default_project(const TrainingArguments& arguments);  // EasyDeL's
std::string new_run_id();                                         // eight letters and digits
// NaN and Infinity as the strings that Python's trackers write.
Json strict_number(double value);

}  // namespace easydel

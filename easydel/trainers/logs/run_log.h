// All output of a run: the progress line, metrics.jsonl, TensorBoard's files, the report.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "easydel/trainers/dashboard/dashboard_server.h"
#include "easydel/trainers/logs/metrics_log.h"
#include "easydel/trainers/logs/tensorboard_writer.h"
#include "easydel/trainers/logs/train_progress.h"
#include "easydel/trainers/trackers/tracker_feed.h"
#include "easydel/trainers/trainer.h"

namespace easydel {

class RunLog {
 public:
  // Without a directory there is only the live line. Unless `is_evaluated`, what the files say of an evaluation after
  // first_step is forgotten: it will be done again.
  RunLog(const TrainerOptions& options, const BaseModule& model, std::optional<std::filesystem::path> directory,
         int64_t first_step, int64_t total_steps, bool is_evaluated);

  void step(int64_t step, const Metrics& metrics);
  void evaluated(int64_t step, const Metrics& metrics);
  // A list of objects with prompt and completion.
  void previewed(int64_t step, const Json& previews);
  void saved(int64_t step, const std::filesystem::path& path);
  // Writes report.html and returns its path; empty where there is none.
  std::filesystem::path finish(const std::string& stopped_by, const std::filesystem::path& checkpoint);

 private:
  using Clock = std::chrono::steady_clock;
  void begin_run_file(const BaseModule& model, int64_t first_step, int64_t total_steps);
  void write_run_file() const;
  void begin_trackers(int64_t first_step);
  void begin_dashboard();
  void write_line(int64_t step, const Json& line);  // to metrics.jsonl and the trackers
  // The report is rewritten now and then, at a small share of the run's time: a run that is killed has one.
  std::filesystem::path update_report();

  const TrainerOptions& options_;
  std::optional<std::filesystem::path> directory_;
  std::unique_ptr<MetricsLog> metrics_;
  std::unique_ptr<TensorboardWriter> tensorboard_;
  std::vector<std::unique_ptr<TrackerFeed>> trackers_;
  std::unique_ptr<DashboardServer> dashboard_;
  TrainProgress progress_;
  at::Device device_;
  std::optional<double> peak_flops_;  // of all devices
  Json run_;                          // run.json
  Clock::time_point next_report_ = Clock::now();
  double num_tokens_ = 0;
  double smooth_tokens_ = 0;
  std::optional<double> reward_;
};

}  // namespace easydel

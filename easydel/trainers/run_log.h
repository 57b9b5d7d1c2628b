// Everything that a run tells: the live line, metrics.jsonl, TensorBoard's files, the report.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "easydel/trainers/metrics_log.h"
#include "easydel/trainers/tensorboard_writer.h"
#include "easydel/trainers/train_progress.h"
#include "easydel/trainers/trainer.h"

namespace easydel {

class RunLog {
 public:
  // Without a directory there is only the live line.
  RunLog(const TrainerOptions& options, const BaseModule& model, std::optional<std::filesystem::path> directory,
         int64_t first_step, int64_t total_steps);

  void step(int64_t step, const Metrics& metrics);
  void evaluated(int64_t step, const Metrics& metrics);
  void saved(int64_t step, const std::filesystem::path& path);
  // Writes report.html and returns its path; empty where there is none.
  std::filesystem::path finish(const std::string& stopped_by, const std::filesystem::path& checkpoint);

 private:
  const TrainerOptions& options_;
  std::optional<std::filesystem::path> directory_;
  std::unique_ptr<MetricsLog> metrics_;
  std::unique_ptr<TensorboardWriter> tensorboard_;
  TrainProgress progress_;
  at::Device device_;
  double flops_per_token_ = 0;
  std::optional<double> peak_flops_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  Metrics last_;
  int64_t first_step_, last_step_;
  double smooth_tokens_ = 0;
};

// Floating point operations a second that a device can do at most in this dtype: of a known GPU by its name, of a CPU
// by a product of matrices that is timed once. Nothing where it is not known.
std::optional<double> peak_flops(at::Device device, DType dtype);

}  // namespace easydel

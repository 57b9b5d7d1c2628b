#include "easydel/trainers/run_log.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <cmath>
#include <mutex>
#include <thread>

#include "easydel/core/build_info.h"
#include "easydel/core/file.h"
#include "easydel/core/log.h"
#include "easydel/core/memory.h"
#include "easydel/sharding/parallel.h"
#include "easydel/trainers/report.h"

#if EASYDEL_HAS_CUDA
#include <ATen/cuda/CUDAContext.h>
#endif

namespace easydel {
namespace fs = std::filesystem;
namespace {

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double measure_cpu(DType dtype) {
  const at::NoGradGuard no_grad;
  constexpr int64_t kSize = 768;
  const at::Tensor a = at::ones({kSize, kSize}, dtype), b = at::ones({kSize, kSize}, dtype);
  double best = 1e30;
  for (int i = 0; i < 4; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    at::mm(a, b);
    best = std::min(best, seconds_since(begin));
  }
  return 2.0 * kSize * kSize * kSize / best;
}

Json to_json(const Metrics& metrics) {
  Json json = Json::object();
  for (const auto& [name, value] : metrics) {
    if (name != "tokens" && name != "step_seconds") json[name] = value;
  }
  return json;
}

Scalars to_scalars(const Metrics& metrics, const std::string& prefix) {
  Scalars scalars;
  for (const auto& [name, value] : metrics)
    scalars.emplace_back(prefix + (name.starts_with("eval_") ? name.substr(5) : name), value);
  return scalars;
}

std::optional<double> find(const Metrics& metrics, const std::string& name) {
  const auto found = metrics.find(name);
  return found == metrics.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace

std::optional<double> peak_flops(at::Device device, DType dtype) {
#if EASYDEL_HAS_CUDA
  if (device.is_cuda()) {
    const std::string name = at::cuda::getDeviceProperties(device.index() < 0 ? 0 : device.index())->name;
    const bool half = dtype == bfloat16 || dtype == float16;
    for (const auto& [part, dense16] :
         {std::pair{"H200", 989e12}, {"H100", 989e12}, {"A100", 312e12}, {"L40", 181e12}}) {
      if (name.find(part) != std::string::npos) return half ? dense16 : dense16 / 2;
    }
    return std::nullopt;
  }
#endif
  if (!device.is_cpu()) return std::nullopt;
  static std::mutex mutex;
  static std::map<DType, double> measured;
  const std::lock_guard lock(mutex);
  auto [found, fresh] = measured.try_emplace(dtype, 0.0);
  // Of all cores, where ranks as threads have a share of them each.
  const double shares = std::max(1.0, static_cast<double>(std::thread::hardware_concurrency()) / at::get_num_threads());
  if (fresh) found->second = measure_cpu(dtype) * shares;
  return found->second;
}

RunLog::RunLog(const TrainerOptions& options, const BaseModule& model, std::optional<fs::path> directory,
               int64_t first_step, int64_t total_steps)
    : options_(options),
      directory_(std::move(directory)),
      progress_({.total_steps = total_steps,
                 .first_step = first_step,
                 .label = "train",
                 .type = options.arguments.verbose ? options.arguments.progress_bar_type : "none"}),
      device_(model.options().device),
      flops_per_token_(3 * model.flops_per_token(1, options.arguments.sequence_length())),
      first_step_(first_step),
      last_step_(first_step) {
  const int64_t devices = model.parallel() && !device_.is_cpu() ? model.parallel()->mesh().mesh().size() : 1;
  if (!options.arguments.performance_mode) peak_flops_ = peak_flops(device_, model.dtype());
  if (peak_flops_) *peak_flops_ *= static_cast<double>(devices);
  if (!directory_ || !options.arguments.writes_metrics()) return;
  make_directory(*directory_);
  const std::optional<int64_t> resumed = first_step > 0 ? std::optional(first_step) : std::nullopt;
  metrics_ = std::make_unique<MetricsLog>(*directory_ / "metrics.jsonl", resumed);
  if (options.arguments.use_tensorboard)
    tensorboard_ = std::make_unique<TensorboardWriter>(*directory_ / "tensorboard", first_step);
}

void RunLog::step(int64_t step, const Metrics& metrics) {
  last_ = metrics;
  last_step_ = step;
  Metrics shown = metrics;
  const double speed = metrics.at("tokens_per_second");
  smooth_tokens_ = smooth_tokens_ == 0 ? speed : 0.8 * smooth_tokens_ + 0.2 * speed;
  if (peak_flops_) shown["mfu"] = speed * flops_per_token_ / *peak_flops_;
  shown["memory"] = static_cast<double>(used_memory(device_));
  progress_.update(step, {.loss = find(shown, "loss"),
                          .learning_rate = find(shown, "learning_rate"),
                          .grad_norm = find(shown, "grad_norm"),
                          .tokens_per_second = smooth_tokens_,
                          .mfu = find(shown, "mfu"),
                          .memory_bytes = static_cast<int64_t>(shown["memory"])});
  if (metrics_) metrics_->write(step, to_json(shown));
  if (tensorboard_ && step % options_.arguments.report_steps == 0)
    tensorboard_->write(step, to_scalars(shown, "train/"));
}

void RunLog::evaluated(int64_t step, const Metrics& metrics) {
  if (metrics_) metrics_->write(step, to_json(metrics));
  if (tensorboard_) tensorboard_->write(step, to_scalars(metrics, "eval/"));
  std::string text;
  for (const auto& [name, value] : metrics) text += concat(text.empty() ? "" : ", ", name, " ", value);
  log::info("[evaluate] step ", step, ": ", text);
}

void RunLog::saved(int64_t step, const fs::path& path) {
  log::debug("[trainer] step ", step, " saved as ", path.string());
}

fs::path RunLog::finish(const std::string& stopped_by, const fs::path& checkpoint) {
  progress_.finish();
  if (!metrics_ || !options_.arguments.html_report) return {};
  Json summary = Json::object({{"steps", last_step_}, {"stopped by", stopped_by}, {"seconds", seconds_since(begin_)}});
  const std::vector<Json> lines = read_metrics(metrics_->path());
  if (last_.empty() && !lines.empty()) {  // a run that had all its steps before
    for (const auto& [name, value] : lines.back().as_object()) summary[name] = value;
  }
  for (const auto& [name, value] : last_) summary[name] = value;
  if (!checkpoint.empty()) summary["checkpoint"] = checkpoint.string();
  Json config = options_.run_config.is_null() ? options_.arguments.to_json(options_.trainer_type) : options_.run_config;
  const fs::path path = *directory_ / "report.html";
  write_report(path, {.title = options_.arguments.run_name(options_.model->model_type()),
                      .subtitle = options_.trainer_type,
                      .metrics = lines,
                      .config = std::move(config),
                      .summary = std::move(summary)});
  return path;
}

}  // namespace easydel

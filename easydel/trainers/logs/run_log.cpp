#include "easydel/trainers/logs/run_log.h"

#include <ATen/Parallel.h>

#include <cmath>

#include "easydel/core/build_info.h"
#include "easydel/core/files/file.h"
#include "easydel/core/log.h"
#include "easydel/core/memory.h"
#include "easydel/core/runtime.h"
#include "easydel/sharding/parallel.h"
#include "easydel/trainers/logs/number_text.h"
#include "easydel/trainers/logs/peak_flops.h"
#include "easydel/trainers/logs/run_report.h"
#include "easydel/trainers/previews/previews.h"
#include "easydel/trainers/rollouts/completion_log.h"

#if EASYDEL_HAS_CUDA
#include <ATen/cuda/CUDAContext.h>
#endif

namespace easydel {
namespace fs = std::filesystem;
namespace {

constexpr std::chrono::seconds kBetweenReports{5};
constexpr int kReportShare = 50;  // a report may take 1/50 of the run's time

double unix_seconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<double>(std::chrono::duration_cast<std::chrono::milliseconds>(now).count()) / 1000;
}

std::string device_text(const BaseModule& model, int64_t devices) {
  const at::Device device = model.options().device;
  const std::string several = devices > 1 ? concat(devices, " x ") : "";
#if EASYDEL_HAS_CUDA
  if (device.is_cuda()) return several + at::cuda::getDeviceProperties(device.index() < 0 ? 0 : device.index())->name;
#endif
  if (!device.is_cpu()) return several + device.str();
  return concat(several, "cpu, ", at::get_num_threads(), at::get_num_threads() == 1 ? " thread" : " threads");
}

int64_t count_parameters(const BaseModule& model, bool trained) {
  int64_t sum = 0;
  for (const auto& [path, parameter] : model.named_parameters()) {
    if (trained && !parameter->trainable) continue;
    int64_t size = 1;
    for (const int64_t n : parameter->shape) size *= n;
    sum += size;
  }
  return sum;
}

// Whole numbers without a point.
Json to_json(double value) {
  return std::abs(value) < 1e15 && value == std::floor(value) && std::abs(value) >= 1
             ? Json(static_cast<int64_t>(value))
             : Json(value);
}

// Temporary files left by a run that was killed while writing.
void remove_unfinished(const fs::path& directory) {
  std::vector<fs::path> left;
  for (const auto& entry : fs::directory_iterator(directory)) {
    const std::string name = entry.path().filename().string();
    for (const std::string file : {"metrics.jsonl", "report.html", kRunFile, kCompletionsFile}) {
      if (name.starts_with(file + ".tmp-")) left.push_back(entry.path());
    }
  }
  std::error_code ignored;
  for (const fs::path& path : left) fs::remove(path, ignored);
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

RunLog::RunLog(const TrainerOptions& options, const BaseModule& model, std::optional<fs::path> directory,
               int64_t first_step, int64_t total_steps, bool is_evaluated)
    : options_(options),
      directory_(std::move(directory)),
      progress_({.total_steps = total_steps,
                 .first_step = first_step,
                 .label = "train",
                 .type = options.arguments.verbose ? options.arguments.progress_bar_type : "none"}),
      device_(model.options().device),
      peak_flops_(peak_flops(model)) {
  if (peak_flops_ && model.parallel()) *peak_flops_ *= static_cast<double>(model.parallel()->mesh().mesh().size());
  if (!directory_) return;
  const std::optional<int64_t> resumed = first_step > 0 ? std::optional(first_step) : std::nullopt;
  // Not a file of that name which this run does not write: it may be an earlier run's, or data.
  if (const fs::path completions = *directory_ / kCompletionsFile;
      options.arguments.rollout.log_completions && fs::exists(completions))
    forget_later_lines(completions, resumed);
  if (!options.arguments.writes_metrics()) return;
  make_directory(*directory_);
  remove_unfinished(*directory_);
  metrics_ = std::make_unique<MetricsLog>(*directory_ / "metrics.jsonl", resumed, is_evaluated);
  if (options.arguments.use_tensorboard)
    tensorboard_ = std::make_unique<TensorboardWriter>(*directory_ / "tensorboard", first_step);
  begin_run_file(model, first_step, total_steps);
  begin_trackers(first_step);
  begin_dashboard();
}

void RunLog::begin_run_file(const BaseModule& model, int64_t first_step, int64_t total_steps) {
  const std::string& model_name = model.config().name_or_path;
  const int64_t devices = model.parallel() ? model.parallel()->mesh().mesh().size() : 1;
  const Json before = first_step > 0 ? read_run_file(*directory_) : Json::object();
  const Json* id = before.find("id");
  run_ = Json::object({{"id", id && id->is_string() ? *id : chosen(std::nullopt, "WANDB_RUN_ID", new_run_id())},
                       {"name", options_.arguments.run_name(model.model_type())},
                       {"trainer", options_.trainer_type},
                       {"model", concat(model.type_name(), model_name.empty() ? "" : concat(" (", model_name, ")"))},
                       {"device", device_text(model, devices)},
                       {"dtype", std::string(dtype_name(model.dtype()))},
                       {"parameters", count_parameters(model, false)},
                       {"trained_parameters", count_parameters(model, true)},
                       {"host", host_name()},
                       {"version", EASYDEL_VERSION},
                       {"total_steps", total_steps},
                       {"started", unix_seconds()}});
  if (model.parallel()) run_["mesh"] = model.parallel()->mesh().mesh().to_string();
  if (first_step > 0) {
    run_["resumed"] = Json(run_.at("started"));  // a copy: adding a key moves the others
    run_["resumed_from"] = first_step;
    if (const Json* started = before.find("started")) run_["started"] = *started;
  }
  run_["config"] =
      options_.run_config.is_null() ? options_.arguments.to_json(options_.trainer_type) : options_.run_config;
  write_run_file();
}

void RunLog::begin_trackers(int64_t first_step) {
  TrackedRun run{.id = run_.at("id").as_string(),
                 .name = run_.at("name").as_string(),
                 .config = run_.at("config"),
                 .host = run_.at("host").as_string(),
                 .started = run_.at("started").as_double(),
                 .first_step = first_step,
                 .report_steps = options_.arguments.report_steps,
                 .directory = fs::absolute(*directory_),
                 .metrics = metrics_->path()};
  const std::stop_source requests;
  for (std::unique_ptr<Tracker>& tracker : make_trackers(options_.arguments, run, requests.get_token())) {
    log::info("[", tracker->name(), "] ", tracker->where());
    trackers_.push_back(std::make_unique<TrackerFeed>(std::move(tracker), run, requests));
  }
}

// A page is worth less than a run.
void RunLog::begin_dashboard() {
  if (!options_.arguments.dashboard) return;
  try {
    serve::HttpOptions http;
    http.port = static_cast<uint16_t>(*options_.arguments.dashboard);
    dashboard_ = std::make_unique<DashboardServer>(std::vector<fs::path>{*directory_}, http);
    log::info("[dashboard] listening on ", dashboard_->address());
  } catch (const Error& error) {
    log::warning("[dashboard] the dashboard could not be started: ", error.what());
  }
}

void RunLog::write_line(int64_t step, const Json& line) {
  metrics_->write(step, line);
  if (trackers_.empty()) return;
  Json with_step = line;
  with_step["step"] = step;
  const TrackedRow row = tracked_row(with_step, options_.arguments.report_steps);
  if (row.values.empty() && (row.previews.size() == 0 || !options_.arguments.previews.generation_log_to_wandb)) return;
  for (const auto& tracker : trackers_) tracker->add(row);
}

void RunLog::previewed(int64_t step, const Json& previews) {
  if (metrics_) write_line(step, Json::object({{"time", unix_seconds()}, {"generations", previews}}));
  if (!options_.arguments.previews.generation_preview_print) return;
  for (const std::string& line : preview_table(previews, step)) log::info(line);
}

void RunLog::write_run_file() const { write_file_atomically(*directory_ / kRunFile, run_.dump(2) + "\n"); }

void RunLog::step(int64_t step, const Metrics& metrics) {
  Metrics shown = metrics;
  const double speed = metrics.at("tokens_per_second");
  smooth_tokens_ = smooth_tokens_ == 0 ? speed : 0.8 * smooth_tokens_ + 0.2 * speed;
  if (const auto tflops = find(metrics, "tflops"); tflops && peak_flops_) shown["mfu"] = *tflops * 1e12 / *peak_flops_;
  shown["peak_memory_bytes"] = static_cast<double>(peak_memory(device_));
  shown["samples"] = static_cast<double>(step * options_.arguments.total_batch_size);
  num_tokens_ = find(metrics, "num_tokens").value_or(0);
  if (const auto reward = find(metrics, "reward")) reward_ = reward;  // of the last generation
  progress_.update(step, {.loss = find(shown, "loss"),
                          .reward = reward_,
                          .learning_rate = find(shown, "learning_rate"),
                          .grad_norm = find(shown, "grad_norm"),
                          .tokens_per_second = smooth_tokens_,
                          .tflops = find(shown, "tflops"),
                          .mfu = find(shown, "mfu"),
                          .peak_memory_bytes = static_cast<int64_t>(shown["peak_memory_bytes"])});
  if (metrics_) {
    Json line = Json::object({{"time", unix_seconds()}});
    for (const auto& [name, value] : shown) {
      if (name != "step_seconds") line[name] = to_json(value);
    }
    write_line(step, line);
  }
  if (tensorboard_ && step % options_.arguments.report_steps == 0)
    tensorboard_->write(step, to_scalars(shown, "train/"));
  if (Clock::now() >= next_report_) update_report();
}

void RunLog::evaluated(int64_t step, const Metrics& metrics) {
  if (metrics_) {
    Json line = Json::object({{"time", unix_seconds()}, {"num_tokens", to_json(num_tokens_)}});
    for (const auto& [name, value] : metrics) line[name] = value;
    write_line(step, line);
  }
  if (tensorboard_) tensorboard_->write(step, to_scalars(metrics, "eval/"));
  std::string text;
  for (const auto& [name, value] : metrics) text += concat(text.empty() ? "" : ", ", name, " ", short_number(value));
  log::info("[evaluate] step ", step, ": ", text);
  if (Clock::now() >= next_report_) update_report();
}

void RunLog::saved(int64_t step, const fs::path& path) {
  log::debug("[trainer] step ", step, " saved as ", path.string());
}

fs::path RunLog::update_report() {
  if (!metrics_ || !options_.arguments.html_report) return {};
  const auto begin = Clock::now();
  fs::path path;
  try {
    path = write_run_report(*directory_);
  } catch (const Error& error) {  // a run is worth more than its report
    log::warning("[report] the report was not written: ", error.what());
  }
  const auto end = Clock::now();
  next_report_ = end + std::max<Clock::duration>(kBetweenReports, kReportShare * (end - begin));
  return path;
}

fs::path RunLog::finish(const std::string& stopped_by, const fs::path& checkpoint) {
  progress_.finish();
  const bool succeeded = stopped_by != "SIGINT" && stopped_by != "SIGTERM";
  for (const auto& tracker : trackers_) tracker->finish(succeeded);
  if (!metrics_) return {};
  run_["stopped_by"] = stopped_by;
  run_["ended"] = unix_seconds();
  if (!checkpoint.empty()) run_["checkpoint"] = checkpoint.string();
  write_run_file();
  return update_report();
}

}  // namespace easydel

#include "easydel/trainers/trackers/tracker.h"

#include <cmath>
#include <cstdlib>
#include <random>

#include "easydel/trainers/arguments/training_arguments.h"

namespace easydel {

TrackedRow tracked_row(const Json& line, int64_t report_steps) {
  TrackedRow row;
  bool is_evaluation = false;
  for (const auto& [key, value] : line.as_object()) is_evaluation = is_evaluation || key.starts_with("eval_");
  row.step = line.at("step").as_int();
  if (const Json* time = line.find("time"); time && time->is_number()) row.time = time->as_double();
  if (const Json* previews = line.find("generations"); previews && previews->is_array()) {
    row.previews = *previews;
    return row;
  }
  if (!is_evaluation && row.step % report_steps != 0) return row;
  for (const auto& [key, value] : line.as_object()) {
    if (key == "step" || key == "time" || !value.is_number()) continue;
    if (is_evaluation && key == "num_tokens") continue;
    row.values.emplace_back(
        key.starts_with("eval_") ? "eval/" + key.substr(5) : (is_evaluation ? "eval/" : "train/") + key,
        value.as_double());
  }
  return row;
}

std::string chosen(const std::optional<std::string>& argument, const char* variable, const std::string& otherwise) {
  if (argument) return *argument;
  const char* set = std::getenv(variable);
  return set && *set ? set : otherwise;
}

std::string default_project(const TrainingArguments& arguments) {
  const std::string prefix = arguments.trainer_prefix.value_or("");
  return prefix.empty() ? "EasyDeL" : "EasyDeL-" + prefix;
}

std::string new_run_id() {
  constexpr std::string_view kLetters = "0123456789abcdefghijklmnopqrstuvwxyz";
  std::random_device device;
  std::uniform_int_distribution<std::size_t> any(0, kLetters.size() - 1);
  std::string id;
  for (int i = 0; i < 8; ++i) id += kLetters[any(device)];
  return id;
}

Json strict_number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return value;
}

std::vector<std::unique_ptr<Tracker>> make_trackers(const TrainingArguments& arguments, const TrackedRun& run,
                                                    const std::stop_token& stop) {
  std::vector<std::unique_ptr<Tracker>> trackers;
  const auto add = [&](std::unique_ptr<Tracker> tracker) {
    if (tracker) trackers.push_back(std::move(tracker));
  };
  if (arguments.trackers.reports_to("wandb")) add(make_wandb_tracker(arguments, run));
  if (arguments.trackers.reports_to("mlflow")) add(make_mlflow_tracker(arguments, run, stop));
  if (arguments.trackers.reports_to("trackio")) add(make_trackio_tracker(arguments, run));
  return trackers;
}

}  // namespace easydel

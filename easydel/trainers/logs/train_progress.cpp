#include "easydel/trainers/logs/train_progress.h"

#include <algorithm>

#include "easydel/core/error.h"
#include "easydel/core/json/json.h"
#include "easydel/core/json/strict_json.h"
#include "easydel/core/progress/progress_board.h"
#include "easydel/core/runtime.h"
#include "easydel/core/text/bytes.h"
#include "easydel/trainers/logs/number_text.h"

namespace easydel {
namespace {

Json to_json(int64_t step, const TrainProgressOptions& options, const TrainProgressValues& v) {
  Json json = Json::object({{"step", step}});
  if (options.total_steps > 0) json["total_steps"] = options.total_steps;
  const auto add = [&](std::string_view key, const auto& value) {
    if (value) json[key] = *value;
  };
  add("loss", v.loss);
  add("reward", v.reward);
  add("learning_rate", v.learning_rate);
  add("grad_norm", v.grad_norm);
  add("tokens_per_second", v.tokens_per_second);
  add("tflops", v.tflops);
  add("mfu", v.mfu);
  add("peak_memory_bytes", v.peak_memory_bytes);
  return json;
}

// Not of a run that has nothing left to do.
bool shows_bar(const TrainProgressOptions& options) {
  const bool is_done = options.first_step > 0 && options.first_step == options.total_steps;
  return !is_done && (options.type == "tqdm" || options.type == "rich");
}

}  // namespace

std::string format_train_values(const TrainProgressValues& v) {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : "  ") + part; };
  if (v.loss) add("loss " + short_number(*v.loss));
  if (v.reward) add("reward " + short_number(*v.reward));
  if (v.learning_rate) add("lr " + formatted("%.2e", *v.learning_rate));
  if (v.grad_norm) add("grad " + short_number(*v.grad_norm));
  if (v.tokens_per_second) add(tokens_per_second_text(*v.tokens_per_second));
  if (v.mfu) {
    add("MFU " + formatted("%.1f%%", *v.mfu * 100));
  } else if (v.tflops) {
    add(formatted("%.3g TFLOP/s", *v.tflops));
  }
  if (v.peak_memory_bytes) add("peak " + format_bytes(*v.peak_memory_bytes));
  return text;
}

TrainProgress::TrainProgress(TrainProgressOptions options)
    : options_(std::move(options)),
      bar_(options_.label, {.total = std::max<int64_t>(0, options_.total_steps - options_.first_step),
                            .unit = "step",
                            .enabled = shows_bar(options_)}) {}

void TrainProgress::update(int64_t step, const TrainProgressValues& values) {
  if (options_.type == "json" && current_rank().rank == 0) {
    ProgressBoard::current().print_line(dump_strict(to_json(step, options_, values)));
  }
  std::string message = format_train_values(values);
  if (options_.first_step > 0) {  // the bar counts what this run does
    message = concat("step ", group_digits(step), options_.total_steps > 0 ? "/" : "",
                     options_.total_steps > 0 ? group_digits(options_.total_steps) : "", "  ", message);
  }
  bar_.set_message(std::move(message));
  bar_.set(step - options_.first_step);
}

void TrainProgress::finish() { bar_.finish(); }

}  // namespace easydel

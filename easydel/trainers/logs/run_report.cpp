#include "easydel/trainers/logs/run_report.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "easydel/core/error.h"
#include "easydel/core/log.h"
#include "easydel/core/progress/progress.h"
#include "easydel/core/text/bytes.h"
#include "easydel/trainers/logs/metrics_log.h"
#include "easydel/trainers/logs/number_text.h"

namespace easydel {
namespace fs = std::filesystem;
namespace {

std::optional<double> number(const Json& object, std::string_view key) {
  const Json* value = object.find(key);
  return value && value->is_number() ? std::optional(value->as_double()) : std::nullopt;
}

std::string text(const Json& object, std::string_view key) {
  const Json* value = object.find(key);
  return !value || value->is_null() ? "" : value->is_string() ? value->as_string() : value->dump();
}

std::optional<double> last(const std::vector<Json>& lines, std::string_view key) {
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    if (const auto value = number(*line, key)) return value;
  }
  return std::nullopt;
}

std::optional<double> median(const std::vector<Json>& lines, std::string_view key) {
  std::vector<double> values;
  for (const Json& line : lines) {
    if (const auto value = number(line, key); value && std::isfinite(*value)) values.push_back(*value);
  }
  if (values.empty()) return std::nullopt;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// "2.3101, best 2.2987 at step 300"
std::string evaluation_text(const std::vector<Json>& lines, double latest) {
  const Json* best = nullptr;
  for (const Json& line : lines) {
    const auto loss = number(line, "eval_loss");
    if (loss && std::isfinite(*loss) && (!best || *loss < *number(*best, "eval_loss"))) best = &line;
  }
  if (!best || *number(*best, "eval_loss") == latest) return short_number(latest);
  return concat(short_number(latest), ", best ", short_number(*number(*best, "eval_loss")), " at step ",
                group_digits(best->at("step").as_int()));
}

// Between the first and the last line, so that a report made later says the same.
std::optional<double> seconds_of(const Json& run, const std::vector<Json>& lines) {
  const auto begin = number(run, "started"), end = last(lines, "time");
  return begin && end ? std::optional(*end - *begin) : std::nullopt;
}

fs::path metrics_of(const fs::path& directory) {
  require_run(directory);
  return directory / "metrics.jsonl";
}

Json details_of(const Json& run) {
  Json details = Json::object();
  const auto add = [&](const std::string& label, const std::string& value) {
    if (!value.empty()) details[label] = value;
  };
  for (const char* key : {"model", "trainer", "device", "dtype", "mesh"}) add(key, text(run, key));
  if (const auto all = number(run, "parameters")) {
    const auto trained = number(run, "trained_parameters");
    add("parameters",
        concat(group_digits(static_cast<int64_t>(*all)),
               trained ? concat(", of which ", group_digits(static_cast<int64_t>(*trained)), " train") : ""));
  }
  add("host", text(run, "host"));
  if (const auto started = number(run, "started")) add("started", date_text(*started));
  if (const auto resumed = number(run, "resumed"))
    add("resumed", concat(date_text(*resumed), ", from step ", text(run, "resumed_from")));
  if (const auto ended = number(run, "ended")) add("ended", date_text(*ended));
  for (const char* key : {"checkpoint", "version"}) add(key, text(run, key));
  return details;
}

}  // namespace

Json read_run_file(const fs::path& directory) {
  const fs::path path = directory / kRunFile;
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return Json::object();
  try {
    Json run = Json::parse_file(path.string());
    if (run.is_object()) return run;
  } catch (const Error& error) {
    log::warning("[report] ", error.what());
  }
  return Json::object();
}

Json summarize_run(const Json& run, const std::vector<Json>& lines) {
  Json cards = Json::object();
  const auto add = [&](const std::string& label, const std::string& value) {
    if (!value.empty()) cards[label] = value;
  };
  const auto count = [&](const std::string& label, std::string_view key) {
    if (const auto value = last(lines, key)) add(label, group_digits(static_cast<int64_t>(*value)));
  };
  const std::string stopped_by = text(run, "stopped_by");
  add("status", stopped_by.empty()      ? "running, or killed"
                : stopped_by == "steps" ? "finished"
                                        : "ended by " + stopped_by);
  if (!lines.empty()) {
    const auto total = number(run, "total_steps");
    add("steps", concat(group_digits(lines.back().at("step").as_int()),
                        total ? concat(" of ", group_digits(static_cast<int64_t>(*total))) : ""));
  }
  if (const auto loss = last(lines, "loss")) add("loss", short_number(*loss));
  if (const auto loss = last(lines, "eval_loss")) add("evaluation loss", evaluation_text(lines, *loss));
  for (const auto& [label, key] : {std::pair{"evaluation perplexity", "eval_perplexity"},
                                   {"evaluation accuracy", "eval_accuracy"},
                                   {"accuracy", "accuracy"}}) {
    if (const auto value = last(lines, key)) add(label, short_number(*value));
  }
  count("total tokens", "num_tokens");
  count("samples seen", "samples");
  if (const auto speed = median(lines, "tokens_per_second")) add("speed (median)", tokens_per_second_text(*speed));
  if (const auto mfu = median(lines, "mfu")) {
    add("MFU (median)", concat(std::round(*mfu * 1000) / 10, " %"));
  } else if (const auto tflops = median(lines, "tflops")) {
    add("TFLOP/s (median)", short_number(*tflops));
  }
  if (const auto peak = last(lines, "peak_memory_bytes")) add("peak memory", format_bytes(static_cast<int64_t>(*peak)));
  if (const auto seconds = seconds_of(run, lines)) add("time", format_duration(*seconds));
  return cards;
}

void require_run(const fs::path& directory) {
  std::error_code ignored;
  require<IoError>(fs::is_regular_file(directory / "metrics.jsonl", ignored), "[report] ", directory.string(),
                   " is not the directory of a training run: it has no metrics.jsonl.");
}

std::string run_label(const fs::path& directory) {
  const fs::path plain = fs::absolute(directory).lexically_normal();
  return (plain.has_filename() ? plain : plain.parent_path()).filename().string();
}

Report describe_run(const fs::path& directory) {
  const Json run = read_run_file(directory);
  Report report{.name = run_label(directory), .metrics = {}};
  if (const std::string title = text(run, "name"); !title.empty()) report.title = title;
  const auto started = number(run, "started");
  report.subtitle = concat(text(run, "trainer"), started ? concat(", started ", date_text(*started)) : "",
                           text(run, "host").empty() ? "" : " on " + text(run, "host"));
  report.details = details_of(run);
  if (const Json* config = run.find("config")) report.config = *config;
  return report;
}

fs::path write_run_report(const fs::path& directory, const std::vector<fs::path>& others, fs::path path) {
  Report report = describe_run(directory);
  report.metrics = read_metrics(metrics_of(directory));
  report.summary = summarize_run(read_run_file(directory), report.metrics);
  for (const fs::path& other : others) {
    std::string name = run_label(other);
    if (name == report.name) name = other.lexically_normal().string();
    report.others.push_back({name, read_metrics(metrics_of(other))});
  }
  if (path.empty()) path = directory / (others.empty() ? "report.html" : "comparison.html");
  write_report(path, report);
  return path;
}

}  // namespace easydel

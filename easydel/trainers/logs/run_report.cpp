#include "easydel/trainers/logs/run_report.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <optional>

#include "easydel/core/error.h"
#include "easydel/core/log.h"
#include "easydel/core/progress/progress.h"
#include "easydel/core/text/bytes.h"
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

std::optional<double> last(const MetricColumns& lines, std::string_view key) {
  const MetricColumns::Column* column = lines.find(key);
  return column ? std::optional(column->values.back()) : std::nullopt;
}

std::optional<double> median(const MetricColumns& lines, std::string_view key) {
  std::vector<double> values;
  if (const MetricColumns::Column* column = lines.find(key)) {
    for (const double value : column->values) {
      if (std::isfinite(value)) values.push_back(value);
    }
  }
  if (values.empty()) return std::nullopt;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// "2.3101, best 2.2987 at step 300"
std::string evaluation_text(const MetricColumns& lines, double latest) {
  const MetricColumns::Column& losses = *lines.find("eval_loss");
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < losses.values.size(); ++i) {
    if (std::isfinite(losses.values[i]) && (!best || losses.values[i] < losses.values[*best])) best = i;
  }
  if (!best || losses.values[*best] == latest) return short_number(latest);
  return concat(short_number(latest), ", best ", short_number(losses.values[*best]), " at step ",
                group_digits(lines.step(losses.lines[*best])));
}

// Between the first and the last line, so that a report made later says the same.
std::optional<double> seconds_of(const Json& run, const MetricColumns& lines) {
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

constexpr std::size_t kSamples = 20;
constexpr uintmax_t kSampleBytes = 1 << 18;  // of the end of the file, that are looked through

std::string end_of(const fs::path& path, uintmax_t size) {
  std::ifstream file(path, std::ios::binary);
  file.seekg(-static_cast<std::streamoff>(size), std::ios::end);
  std::string bytes(size, '\0');
  file.read(bytes.data(), static_cast<std::streamsize>(size));
  bytes.resize(static_cast<std::size_t>(file.gcount()));
  return bytes;
}

// The last lines of completions.jsonl, the newest first.
Json read_completions(const fs::path& path) {
  std::error_code none;
  const uintmax_t size = fs::file_size(path, none);
  if (none) return Json::array();
  const std::string text = end_of(path, std::min(size, kSampleBytes));
  Json samples = Json::array();
  for (std::size_t end = text.rfind('\n'); end != std::string::npos && end > 0 && samples.size() < kSamples;) {
    const std::size_t before = text.rfind('\n', end - 1);
    if (before == std::string::npos && size > kSampleBytes) break;  // its beginning was not read
    const std::size_t begin = before == std::string::npos ? 0 : before + 1;
    try {
      if (Json line = Json::parse(text.substr(begin, end - begin)); line.is_object())
        samples.push_back(std::move(line));
    } catch (const FormatError&) {
    }
    end = before;
  }
  return samples;
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

Json last_samples(const fs::path& directory, const MetricColumns& metrics) {
  Json::Array samples;
  for (auto line = metrics.previews().rbegin(); line != metrics.previews().rend(); ++line) {
    for (const Json& each : line->at("generations").as_array()) {
      Json sample = each;
      sample["step"] = line->at("step");
      samples.push_back(std::move(sample));
    }
  }
  const Json completions = read_completions(directory / "completions.jsonl");
  samples.insert(samples.end(), completions.as_array().begin(), completions.as_array().end());
  const auto step = [](const Json& sample) {
    const Json* found = sample.find("step");
    return found && found->is_int() ? found->as_int() : 0;
  };
  std::stable_sort(samples.begin(), samples.end(), [&](const Json& a, const Json& b) { return step(a) > step(b); });
  if (samples.size() > kSamples) samples.resize(kSamples);
  return samples;
}

Json summarize_run(const Json& run, const MetricColumns& lines) {
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
  if (lines.size() > 0) {
    const auto total = number(run, "total_steps");
    add("steps", concat(group_digits(lines.step(lines.size() - 1)),
                        total ? concat(" of ", group_digits(static_cast<int64_t>(*total))) : ""));
  }
  if (const auto loss = last(lines, "loss")) add("loss", short_number(*loss));
  if (const auto reward = last(lines, "reward")) add("reward", short_number(*reward));
  if (const auto loss = last(lines, "eval_loss")) add("evaluation loss", evaluation_text(lines, *loss));
  for (const auto& [label, key] : {std::pair{"evaluation perplexity", "eval_perplexity"},
                                   {"evaluation accuracy", "eval_accuracy"},
                                   {"evaluation reward", "eval_reward"},
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
  report.metrics = MetricColumns::read(metrics_of(directory));
  report.samples = last_samples(directory, report.metrics);
  report.summary = summarize_run(read_run_file(directory), report.metrics);
  for (const fs::path& other : others) {
    std::string name = run_label(other);
    if (name == report.name) name = other.lexically_normal().string();
    report.others.push_back({name, MetricColumns::read(metrics_of(other))});
  }
  if (path.empty()) path = directory / (others.empty() ? "report.html" : "comparison.html");
  write_report(path, report);
  return path;
}

}  // namespace easydel

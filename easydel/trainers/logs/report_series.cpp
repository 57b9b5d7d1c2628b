#include "easydel/trainers/logs/report_series.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "easydel/core/text/utf8.h"

namespace easydel {
namespace {

constexpr std::size_t kMaxPoints = 3000;  // of a series; more is nothing that a screen could show

struct Point {
  int64_t step = 0;
  double value = 0;
  double time = 0, tokens = 0;  // NaN: its line has none
};

struct Series {
  std::string name, chart, kind;
  std::size_t run = 0;
  std::vector<Point> points;
  std::vector<double>
      means;  // of thinned ones: of the stretch that a point stands for, which is what smoothing smooths
};

// What the charts are, first to last; others follow by name.
constexpr std::string_view kOrder[] = {"loss",          "perplexity", "accuracy",
                                       "learning_rate", "grad_norm",  "tokens_per_second",
                                       "tflops",        "mfu",        "peak_memory_bytes"};
// Values that say where a line belongs, not what happened there.
constexpr std::string_view kNoCharts[] = {"step",       "epoch",   "time",        "wall_time",      "total_steps",
                                          "num_tokens", "samples", "step_tokens", "batch_checksum", "step_seconds"};

Series named(const std::string& name) {
  Series series{.name = name, .chart = name, .kind = "train", .points = {}, .means = {}};
  for (const std::string_view kind : {"train", "eval"}) {
    const std::size_t size = kind.size();
    if (name.size() <= size + 1 || !name.starts_with(kind) || (name[size] != '/' && name[size] != '_')) continue;
    series.chart = name.substr(size + 1);
    series.kind = kind;
  }
  return series;
}

// Of each line, NaN where it has none.
std::vector<double> spread(const MetricColumns& lines, std::string_view name) {
  std::vector<double> out(lines.size(), std::nan(""));
  if (const MetricColumns::Column* column = lines.find(name)) {
    for (std::size_t i = 0; i < column->lines.size(); ++i) out[column->lines[i]] = column->values[i];
  }
  return out;
}

std::vector<Series> collect(const MetricColumns& lines, std::size_t run) {
  std::vector<double> times = spread(lines, "time");
  const std::vector<double> tokens = spread(lines, "num_tokens");
  const auto begin = std::find_if(times.begin(), times.end(), [](double time) { return std::isfinite(time); });
  const double first = begin == times.end() ? 0 : *begin;
  std::vector<Series> all;
  for (const MetricColumns::Column& column : lines.columns()) {
    if (std::find(std::begin(kNoCharts), std::end(kNoCharts), column.name) != std::end(kNoCharts)) continue;
    Series series = named(valid_text(column.name));
    series.run = run;
    auto& points = series.points;
    points.reserve(column.values.size());
    for (std::size_t i = 0; i < column.values.size(); ++i) {
      const std::size_t line = column.lines[i];
      points.push_back(
          {.step = lines.step(line), .value = column.values[i], .time = times[line] - first, .tokens = tokens[line]});
    }
    if (!std::is_sorted(points.begin(), points.end(), [](auto& a, auto& b) { return a.step < b.step; })) {
      std::map<int64_t, Point> in_order;  // of a step that was done twice, the last
      for (const Point& point : points) in_order[point.step] = point;
      points.clear();
      for (const auto& [step, point] : in_order) points.push_back(point);
    }
    all.push_back(std::move(series));
  }
  return all;
}

// Each stretch keeps its least and its largest value, in order; a value that is not finite stays.
void thin(Series& series) {
  if (series.points.size() <= kMaxPoints) return;
  const auto all = std::move(series.points);
  series.points.clear();
  const auto keep = [&](std::size_t at, double mean) {
    series.points.push_back(all[at]);
    series.means.push_back(mean);
  };
  keep(0, all[0].value);
  const std::size_t stretches = kMaxPoints / 2 - 1;
  for (std::size_t i = 0; i < stretches; ++i) {
    const std::size_t begin = 1 + (all.size() - 2) * i / stretches, end = 1 + (all.size() - 2) * (i + 1) / stretches;
    std::size_t low = begin, high = begin;
    double sum = 0;
    for (std::size_t at = begin; at < end; ++at) {
      sum += all[at].value;
      if (!std::isfinite(all[at].value)) {
        low = high = at;
        break;
      }
      if (all[at].value < all[low].value) low = at;
      if (all[at].value > all[high].value) high = at;
    }
    const double mean = sum / static_cast<double>(end - begin);
    keep(std::min(low, high), mean);
    if (low != high) keep(std::max(low, high), mean);
  }
  keep(all.size() - 1, all.back().value);
}

Json finite(double value) { return std::isfinite(value) ? Json(value) : Json(); }

Json to_json(const Series& series) {
  Json entry = Json::object({{"name", series.name},
                             {"chart", series.chart},
                             {"kind", series.kind},
                             {"run", static_cast<int64_t>(series.run)}});
  Json::Array x, y, means;
  for (const Point& point : series.points) {
    x.emplace_back(point.step);
    y.push_back(finite(point.value));
  }
  entry["x"] = std::move(x);
  entry["y"] = std::move(y);
  const auto add = [&](std::string_view key, auto member) {
    const auto has = [&](const Point& point) { return std::isfinite(point.*member); };
    if (!std::all_of(series.points.begin(), series.points.end(), has)) return;
    Json::Array values;
    for (const Point& point : series.points) values.emplace_back(std::round(point.*member * 1000) / 1000);
    entry[key] = std::move(values);
  };
  add("time", &Point::time);
  add("tokens", &Point::tokens);
  for (const double mean : series.means) means.push_back(finite(mean));
  if (!means.empty()) entry["mean"] = std::move(means);
  return entry;
}

}  // namespace

std::string valid_text(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t bad = std::min(invalid_utf8(text), text.find('\0'));
    out += text.substr(0, bad);
    if (bad == std::string_view::npos) break;
    out += "\xef\xbf\xbd";
    text.remove_prefix(bad + 1);
  }
  return out;
}

Json report_series(const std::vector<const MetricColumns*>& runs) {
  std::vector<Series> all;
  for (std::size_t run = 0; run < runs.size(); ++run) {
    for (Series& series : collect(*runs[run], run)) all.push_back(std::move(series));
  }
  const auto key = [](const Series& s) {
    const auto rank = std::find(std::begin(kOrder), std::end(kOrder), s.chart) - std::begin(kOrder);
    return std::tuple(rank, s.chart, s.kind == "eval", s.run, s.name);
  };
  std::sort(all.begin(), all.end(), [&](const Series& a, const Series& b) { return key(a) < key(b); });
  Json list = Json::array();
  for (Series& series : all) {
    thin(series);
    list.push_back(to_json(series));
  }
  return list;
}

}  // namespace easydel

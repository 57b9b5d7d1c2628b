#include "easydel/trainers/report.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "easydel/core/error.h"
#include "easydel/core/file.h"
#include "easydel/trainers/report_page.h"

namespace easydel {
namespace {

constexpr std::size_t kMostPoints = 3000;  // of a series; more is nothing that a screen could show

struct Series {
  std::string name, chart, kind;  // "eval/loss" is drawn in the chart "loss" as "eval"
  std::vector<std::pair<int64_t, double>> points;
  std::vector<double>
      means;  // of thinned ones: of the stretch that a point stands for, which is what smoothing smooths
};

// What the charts are, first to last; others follow by name.
constexpr std::string_view kOrder[] = {"loss", "learning_rate", "grad_norm",  "tokens_per_second",
                                       "mfu",  "accuracy",      "perplexity", "memory_bytes"};
// Values that say where a line belongs, not what happened there.
constexpr std::string_view kNoCharts[] = {"step", "epoch", "time", "wall_time", "total_steps", "num_tokens"};

// With the replacement character for what is no UTF-8, or nothing that a page may hold.
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

Series named(const std::string& name) {
  for (const std::string_view kind : {"train", "eval"}) {
    if (name.size() > kind.size() + 1 && name.starts_with(kind) &&
        (name[kind.size()] == '/' || name[kind.size()] == '_'))
      return {name, name.substr(kind.size() + 1), std::string(kind), {}, {}};
  }
  return {name, name, "train", {}, {}};
}

bool is_chart(std::string_view key) {
  return std::find(std::begin(kNoCharts), std::end(kNoCharts), key) == std::end(kNoCharts);
}

std::vector<Series> collect(const std::vector<Json>& lines) {
  std::map<std::string, Series> found;
  for (const Json& line : lines) {
    const Json* step = line.find("step");
    if (!step || !step->is_int()) continue;
    for (const auto& [key, value] : line.as_object()) {
      if (!value.is_number() || !is_chart(key)) continue;
      const auto [entry, fresh] = found.try_emplace(key);
      if (fresh) entry->second = named(valid_text(key));
      entry->second.points.emplace_back(step->as_int(), value.as_double());
    }
  }
  std::vector<Series> all;
  for (auto& [name, series] : found) {
    auto& points = series.points;
    if (!std::is_sorted(points.begin(), points.end(), [](auto& a, auto& b) { return a.first < b.first; })) {
      std::map<int64_t, double> in_order;  // of a step that was done twice, the last
      for (const auto& [step, value] : points) in_order[step] = value;
      points.assign(in_order.begin(), in_order.end());
    }
    all.push_back(std::move(series));
  }
  const auto rank = [](const Series& s) {
    return std::find(std::begin(kOrder), std::end(kOrder), s.chart) - std::begin(kOrder);
  };
  std::sort(all.begin(), all.end(), [&](const Series& a, const Series& b) {
    if (rank(a) != rank(b)) return rank(a) < rank(b);
    if (a.chart != b.chart) return a.chart < b.chart;
    return a.kind != b.kind ? a.kind > b.kind : a.name < b.name;  // train before eval
  });
  return all;
}

// Each stretch keeps its least and its largest value, in order; a value that is not finite stays.
void thin(Series& series) {
  const auto all = std::move(series.points);
  series.points.clear();
  const auto keep = [&](std::size_t at, double mean) {
    series.points.push_back(all[at]);
    series.means.push_back(mean);
  };
  if (all.size() <= kMostPoints) {
    series.points = all;
    return;
  }
  keep(0, all[0].second);
  const std::size_t stretches = kMostPoints / 2 - 1;
  for (std::size_t i = 0; i < stretches; ++i) {
    const std::size_t begin = 1 + (all.size() - 2) * i / stretches, end = 1 + (all.size() - 2) * (i + 1) / stretches;
    std::size_t low = begin, high = begin;
    double sum = 0;
    for (std::size_t at = begin; at < end; ++at) {
      sum += all[at].second;
      if (!std::isfinite(all[at].second)) {
        low = high = at;
        break;
      }
      if (all[at].second < all[low].second) low = at;
      if (all[at].second > all[high].second) high = at;
    }
    const double mean = sum / static_cast<double>(end - begin);
    keep(std::min(low, high), mean);
    if (low != high) keep(std::max(low, high), mean);
  }
  keep(all.size() - 1, all.back().second);
}

// JSON that a script element may hold: nothing in it ends the element, and no value is NaN.
std::string script_json(const Json& json) {
  std::string out;
  for (const char c : json.dump()) {
    if (c == '<' || c == '>' || c == '&') {
      out += c == '<' ? "\\u003c" : c == '>' ? "\\u003e" : "\\u0026";
    } else {
      out += c;
    }
  }
  return out;
}

Json data_of(const std::vector<Series>& all) {
  Json series = Json::array();
  for (const Series& s : all) {
    Json x = Json::array(), y = Json::array();
    for (const auto& [step, value] : s.points) {
      x.push_back(step);
      y.push_back(std::isfinite(value) ? Json(value) : Json());
    }
    Json entry = Json::object({{"name", s.name}, {"chart", s.chart}, {"kind", s.kind}, {"x", x}, {"y", y}});
    for (const double mean : s.means) entry["mean"].push_back(std::isfinite(mean) ? Json(mean) : Json());
    series.push_back(std::move(entry));
  }
  return series;
}

void flatten(const Json& value, const std::string& key, std::vector<std::pair<std::string, std::string>>& rows) {
  if (value.is_object() && value.size() > 0) {
    for (const auto& [name, inner] : value.as_object()) flatten(inner, key.empty() ? name : key + "." + name, rows);
  } else {
    rows.emplace_back(key, value.is_string() ? value.as_string() : value.dump());
  }
}

std::string table(const Json& values) {
  std::vector<std::pair<std::string, std::string>> rows;
  if (values.size() > 0) flatten(values, "", rows);
  if (rows.empty()) return "<p class=\"empty\">Nothing was given.</p>";
  std::string out = "<table>";
  for (const auto& [key, value] : rows) {
    out += concat("<tr><th scope=\"row\">", html_escaped(key), "</th><td>", html_escaped(value), "</td></tr>\n");
  }
  return out + "</table>";
}

std::string cards(const Json& summary) {
  std::string out;
  if (!summary.is_object()) return out;
  for (const auto& [key, value] : summary.as_object()) {
    out += concat("<div class=\"card\"><span>", html_escaped(key), "</span><strong>",
                  html_escaped(value.is_string() ? value.as_string() : value.dump()), "</strong></div>\n");
  }
  return out;
}

std::string filled(std::string_view page, const std::map<std::string_view, std::string>& values) {
  std::string out;
  while (true) {
    const std::size_t open = page.find("{{");
    if (open == std::string_view::npos) return out.append(page);
    const std::size_t close = page.find("}}", open);
    out.append(page.substr(0, open));
    out += values.at(page.substr(open + 2, close - open - 2));
    page.remove_prefix(close + 2);
  }
}

}  // namespace

std::string html_escaped(std::string_view text) {
  std::string out;
  for (const char c : valid_text(text)) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
    }
  }
  return out;
}

std::string render_report(const Report& report) {
  std::vector<Series> series = collect(report.metrics);
  for (Series& s : series) thin(s);
  return filled(kReportPage, {{"title", html_escaped(report.title)},
                              {"subtitle", html_escaped(report.subtitle)},
                              {"cards", cards(report.summary)},
                              {"config", table(report.config)},
                              {"style", std::string(kReportStyle)},
                              {"script", std::string(kReportScript)},
                              {"data", script_json(data_of(series))}});
}

void write_report(const std::filesystem::path& path, const Report& report) {
  if (path.has_parent_path()) make_directory(path.parent_path());
  write_file_atomically(path, render_report(report));
}

}  // namespace easydel

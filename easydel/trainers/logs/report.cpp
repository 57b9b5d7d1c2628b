#include "easydel/trainers/logs/report.h"

#include <cmath>
#include <map>

#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/trainers/logs/number_text.h"
#include "easydel/trainers/logs/report_page.h"
#include "easydel/trainers/logs/report_series.h"

namespace easydel {
namespace {

// JSON that a script element may hold: nothing in it ends the element.
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

std::string text_of(const Json& value) {
  if (value.is_string()) return value.as_string();
  return value.is_number() && !value.is_int() ? short_number(value.as_double()) : value.dump();
}

struct Rows {
  std::vector<std::pair<std::string, std::string>> shown;
  int64_t unset = 0;
};

void flatten(const Json& value, const std::string& key, Rows& rows) {
  if (value.is_object() && value.size() > 0) {
    for (const auto& [name, inner] : value.as_object()) flatten(inner, key.empty() ? name : key + "." + name, rows);
  } else if (value.is_null() || ((value.is_object() || value.is_array()) && value.size() == 0)) {
    ++rows.unset;
  } else {
    rows.shown.emplace_back(key, value.is_string() ? value.as_string() : value.dump());
  }
}

std::string table(const Json& values) {
  Rows rows;
  if (values.size() > 0) flatten(values, "", rows);
  if (rows.shown.empty()) return "<p class=\"empty\">Nothing was set.</p>";
  std::string out = "<table>";
  for (const auto& [key, value] : rows.shown)
    out += concat("<tr><th scope=\"row\">", html_escaped(key), "</th><td>", html_escaped(value), "</td></tr>\n");
  out += "</table>";
  if (rows.unset > 0)
    out +=
        concat("<p class=\"empty\">", rows.unset, rows.unset == 1 ? " setting is" : " settings are", " not set.</p>");
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

std::string rendered(const Report& report, const Json& data, const std::string& live) {
  const std::string details =
      report.details.size() > 0 ? "<section><h2>Run</h2>" + table(report.details) + "</section>" : "";
  return filled(kReportPage, {{"title", html_escaped(report.title)},
                              {"subtitle", html_escaped(report.subtitle)},
                              {"cards", report_cards(report.summary)},
                              {"details", details},
                              {"config", table(report.config)},
                              {"style", std::string(kReportStyle)},
                              {"script", std::string(kReportScript)},
                              {"data", script_json(data)},
                              {"live", live}});
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

std::string report_cards(const Json& summary) {
  std::string out;
  if (!summary.is_object()) return out;
  for (const auto& [key, value] : summary.as_object()) {
    if (value.is_null()) continue;
    out += concat("<div class=\"card\"><span>", html_escaped(key), "</span><strong>", html_escaped(text_of(value)),
                  "</strong></div>\n");
  }
  return out;
}

std::string render_report(const Report& report) {
  std::vector<const MetricColumns*> runs{&report.metrics};
  Json names = Json::array({valid_text(report.name)});
  for (const Report::Other& other : report.others) {
    runs.push_back(&other.metrics);
    names.push_back(valid_text(other.name));
  }
  const Json data = Json::object({{"runs", names}, {"series", report_series(runs)}, {"samples", report.samples}});
  return rendered(report, data, "");
}

std::string render_live_report(const Report& report) {
  const Json nothing = Json::object({{"runs", Json::array()}, {"series", Json::array()}, {"samples", Json::array()}});
  return rendered(report, nothing, concat("<script>", kLiveScript, "</script>"));
}

void write_report(const std::filesystem::path& path, const Report& report) {
  if (path.has_parent_path()) make_directory(path.parent_path());
  write_file_atomically(path, render_report(report));
}

}  // namespace easydel

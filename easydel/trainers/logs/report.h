// report.html: a run's curves, config and numbers in one file that needs nothing else.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "easydel/core/json/json.h"
#include "easydel/trainers/logs/metric_columns.h"

namespace easydel {

struct Report {
  std::string title = "Training run";
  std::string subtitle;           // the model's name, when it began, …
  std::string name = "this run";  // label of the curves when compared with other runs
  MetricColumns metrics;          // of metrics.jsonl
  Json summary = Json::object();  // the numbers that matter, above the curves: label and text
  Json details = Json::object();  // what ran where and when, as a table
  Json config = Json::object();   // as a table, nested keys joined by dots; empty values are left out and counted
  struct Other {
    std::string name;
    MetricColumns metrics;
  };
  Json samples = Json::array();    // what the model wrote, the newest first: step, prompt, completion, reward if any
  std::vector<Other> others = {};  // runs to compare with, in the same charts
};

// loss and eval_loss (or "train/loss" and "eval/loss") share a chart. Lines with "time", in seconds since 1970, and
// "num_tokens" can be drawn over these instead of steps. Series with more points than a screen has are thinned to the
// least and the largest value of each stretch.
std::string render_report(const Report& report);
// The same without curves and summary, with a script that asks for them: see LiveReport.
std::string render_live_report(const Report& report);
std::string report_cards(const Json& summary);  // as HTML

void write_report(const std::filesystem::path& path, const Report& report);

// For HTML's text and attributes.
std::string html_escaped(std::string_view text);

}  // namespace easydel

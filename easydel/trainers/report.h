// report.html: a run's curves, config and last numbers in one file that needs nothing else.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "easydel/core/json.h"

namespace easydel {

struct Report {
  std::string title = "Training run";
  std::string subtitle;           // the model's name, when it began, …
  std::vector<Json> metrics;      // lines of metrics.jsonl: objects with "step"
  Json config = Json::object();   // shown as a table, nested keys joined by dots
  Json summary = Json::object();  // final numbers, above the curves
};

// "train/loss" and "eval/loss" (or loss and eval_loss) share a chart. Series with more points than a screen has are
// thinned to the least and the largest value of each stretch.
std::string render_report(const Report& report);

void write_report(const std::filesystem::path& path, const Report& report);

// For HTML's text and attributes.
std::string html_escaped(std::string_view text);

}  // namespace easydel

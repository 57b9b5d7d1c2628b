// The curves of a report, from the lines of metrics.jsonl.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "easydel/core/json/json.h"
#include "easydel/trainers/logs/metric_columns.h"

namespace easydel {

// With the replacement character for what is no UTF-8, or nothing that a page may hold.
std::string valid_text(std::string_view text);

// A list of {name, chart, kind, run, x, y} in the order of the charts: "eval_loss" and "eval/loss" are drawn in the
// chart "loss" as "eval". Beside x, the steps, there are "time", seconds since the run's first line, and "tokens",
// where the lines have them. Series with more points than a screen has are thinned to the least and the largest value
// of each stretch, with its "mean". A value that is not finite is null.
Json report_series(const std::vector<const MetricColumns*>& runs);

}  // namespace easydel

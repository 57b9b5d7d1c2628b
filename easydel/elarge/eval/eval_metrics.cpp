#include "easydel/elarge/eval/eval_metrics.h"

#include <algorithm>
#include <cmath>

#include "easydel/core/error.h"
#include "easydel/elarge/config/section_keys.h"
#include "easydel/elarge/eval/python_random.h"
#include "easydel/text/jinja/builtins/unicode.h"

namespace easydel {
namespace {

using std::string_view;

struct MetricRule {
  string_view name, aggregation;
  EvalOutput output;
  bool higher_is_better, is_default;
};
constexpr MetricRule kMetrics[] = {
    {"acc", "mean", EvalOutput::MultipleChoice, true, true},
    {"acc_norm", "mean", EvalOutput::MultipleChoice, true, true},
    {"acc_bytes", "mean", EvalOutput::MultipleChoice, true, false},
    {"perplexity", "perplexity", EvalOutput::Loglikelihood, false, true},
    {"acc", "mean", EvalOutput::Loglikelihood, true, true},
    {"word_perplexity", "weighted_perplexity", EvalOutput::LoglikelihoodRolling, false, true},
    {"byte_perplexity", "weighted_perplexity", EvalOutput::LoglikelihoodRolling, false, true},
    {"bits_per_byte", "bits_per_byte", EvalOutput::LoglikelihoodRolling, false, true},
    {"exact_match", "mean", EvalOutput::GenerateUntil, true, true},
    {"prompt_level_strict_acc", "mean", EvalOutput::GenerateUntil, true, false},
    {"inst_level_strict_acc", "agg_inst_level_acc", EvalOutput::GenerateUntil, true, false},
    {"prompt_level_loose_acc", "mean", EvalOutput::GenerateUntil, true, false},
    {"inst_level_loose_acc", "agg_inst_level_acc", EvalOutput::GenerateUntil, true, false},
    {"pass_at_k", "mean", EvalOutput::GenerateUntil, true, false}};

double mean(std::span<const double> values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

double sample_stddev(std::span<const double> values) {
  const double middle = mean(values);
  double sum = 0;
  for (const double value : values) sum += (value - middle) * (value - middle);
  return std::sqrt(sum / static_cast<double>(values.size() - 1));
}

// The deviation of exp(-mean) over draws with replacement: a generator of its own for each thousand of them.
double bootstrap_perplexity(std::span<const double> values, int64_t iterations) {
  const int64_t chunk = std::min<int64_t>(1000, iterations);
  const auto count = static_cast<double>(values.size());
  std::vector<double> results;
  for (int64_t i = 0; i < iterations / chunk; ++i) {
    PythonRandom random(static_cast<uint64_t>(i));
    for (int64_t j = 0; j < chunk; ++j) {
      double sum = 0;
      for (std::size_t k = 0; k < values.size(); ++k)
        sum += values[static_cast<std::size_t>(std::floor(random.random() * count))];
      results.push_back(std::exp(-sum / count));
    }
  }
  return sample_stddev(results);
}

// The choice with the highest log-likelihood per unit of its length; the first of equals.
std::size_t best_choice(const EvalScore& row, auto length) {
  std::size_t best = 0;
  double highest = 0;
  for (std::size_t i = 0; i < row.log_likelihoods.size(); ++i) {
    const double value = row.log_likelihoods[i] / length(row.choices[i]);
    if (i == 0 || value > highest) {
      best = i;
      highest = value;
    }
  }
  return best;
}

double accuracy(const EvalScore& row, const std::string& metric) {
  const std::size_t chosen = best_choice(row, [&](const std::string& choice) {
    if (metric == "acc") return 1.0;
    return static_cast<double>(metric == "acc_norm" ? jinja::count_characters(choice) : choice.size());
  });
  return std::find(row.gold.begin(), row.gold.end(), chosen) != row.gold.end() ? 1.0 : 0.0;
}

double value_of(const EvalTask& task, const EvalScore& row, const std::string& metric) {
  if (task.output == EvalOutput::MultipleChoice) return accuracy(row, metric);
  if (metric == "acc") return row.is_greedy ? 1.0 : 0.0;
  return row.log_likelihoods[0];
}

const MetricRule* find_rule(EvalOutput output, string_view name) {
  for (const MetricRule& rule : kMetrics) {
    if (rule.output == output && rule.name == name) return &rule;
  }
  return nullptr;
}

// Options of a metric that is not only a name; false: the metric has none of this name.
bool read_metric_option(const std::string& where, const std::string& key, const Json& value, EvalMetric& metric) {
  const auto check = [&](bool is_right, string_view rule) {
    require<ConfigError>(is_right, where, ": ", key, " of ", metric.name, " must be ", rule, "; got ", value.dump(),
                         ".");
    metric.options[key] = value;
    return true;
  };
  const auto all = [&](auto fits) {
    return value.is_array() && std::all_of(value.as_array().begin(), value.as_array().end(), fits);
  };
  if (metric.name == "exact_match") {
    if (key == "ignore_case" || key == "ignore_punctuation" || key == "ignore_numbers")
      return check(value.is_bool(), "true or false");
    if (key == "regexes_to_ignore")
      return check(value.is_null() || all([](const Json& one) { return one.is_string(); }),
                   "a list of regular expressions");
  }
  if (metric.name != "pass_at_k" || key != "k") return false;
  const auto is_count = [](const Json& one) { return one.is_int() && one.as_int() > 0; };
  return check(is_count(value) || (value.size() > 0 && all(is_count)), "a number above 0 or a list of these");
}

EvalMetric read_metric(const EvalTask& task, const Json& entry) {
  const std::string where = task.where("metric_list");
  const Json* name = entry.find("metric");
  require<ConfigError>(name && name->is_string(), where, ": each entry needs a metric, as in - metric: acc; got ",
                       entry.dump(), ".");
  const MetricRule* rule = find_rule(task.output, name->as_string());
  if (!rule) {
    std::vector<std::string> known;
    std::string listed;
    for (const MetricRule& other : kMetrics) {
      if (other.output != task.output) continue;
      known.emplace_back(other.name);
      listed += concat(listed.empty() ? "" : ", ", other.name);
    }
    const std::string near = nearest_name(name->as_string(), known);
    fail<NotSupportedError>(where, ": \"", name->as_string(), "\" is not a metric of this output_type; known: ", listed,
                            ".", near.empty() ? "" : concat(" Did you mean \"", near, "\"?"));
  }
  EvalMetric metric{std::string(rule->name), rule->higher_is_better, Json::object()};
  for (const auto& [key, value] : entry.as_object()) {
    if (key == "aggregation") {
      require<NotSupportedError>(value == Json(rule->aggregation), where, ": the aggregation of ", rule->name,
                                 " must be ", rule->aggregation, "; got ", value.dump(), ".");
    } else if (key == "higher_is_better") {
      require<ConfigError>(value.is_bool(), where, ": higher_is_better must be true or false; got ", value.dump(), ".");
      metric.higher_is_better = value.as_bool();
    } else if (!read_metric_option(where, key, value, metric)) {
      require<NotSupportedError>(key == "metric" || !asks(value), where, ": ", key, " of ", rule->name,
                                 " is not supported; known: metric, aggregation and higher_is_better.");
    }
  }
  require<ConfigError>(metric.name != "pass_at_k" || metric.options.contains("k"), where,
                       ": pass_at_k needs k, as in k: [1].");
  return metric;
}

}  // namespace

std::vector<EvalMetric> read_metrics(const EvalTask& task, const Json* list) {
  std::vector<EvalMetric> metrics;
  if (!list) {
    for (const MetricRule& rule : kMetrics) {
      if (rule.output == task.output && rule.is_default)
        metrics.push_back({std::string(rule.name), rule.higher_is_better, Json::object()});
    }
    return metrics;
  }
  const std::string where = task.where("metric_list");
  require<ConfigError>(list->is_array() && list->size() > 0, where, " must be a list of metrics; got ", list->dump(),
                       ".");
  for (const Json& entry : list->as_array()) {
    EvalMetric metric = read_metric(task, entry);
    for (const EvalMetric& other : metrics)
      require<ConfigError>(other.name != metric.name, where, " has ", metric.name, " twice.");
    metrics.push_back(std::move(metric));
  }
  return metrics;
}

int64_t count_words(const std::string& text) {
  int64_t words = 1;
  bool in_space = false;
  for (std::size_t at = 0; at < text.size();) {
    const bool space = jinja::is_space(jinja::next_character(text, at));
    words += space && !in_space;
    in_space = space;
  }
  return words;
}

Json aggregate(const EvalTask& task, std::span<const EvalScore> rows, int64_t bootstrap_iters) {
  Json results = Json::object();
  for (const EvalMetric& metric : task.metrics) {
    std::vector<double> values;
    for (const EvalScore& row : rows) values.push_back(value_of(task, row, metric.name));
    Json value, error = "N/A";
    const bool has_error = bootstrap_iters > 1 && values.size() > 1;
    if (task.output == EvalOutput::LoglikelihoodRolling) {
      double weight = 0, sum = 0;
      for (const EvalScore& row : rows) {
        weight += static_cast<double>(metric.name == "word_perplexity" ? row.words : row.bytes);
        sum += row.log_likelihoods[0];
      }
      require<FormatError>(weight > 0, "[eval] the texts of ", task.name,
                           " are all empty: there is nothing to predict.");
      value = metric.name == "bits_per_byte" ? -sum / weight / std::log(2.0) : std::exp(-sum / weight);
    } else if (metric.name == "perplexity") {
      value = std::exp(-mean(values));
      if (has_error) error = bootstrap_perplexity(values, bootstrap_iters);
    } else {
      value = mean(values);
      if (has_error) error = sample_stddev(values) / std::sqrt(static_cast<double>(values.size()));
    }
    results[metric.name + ",none"] = value;
    results[metric.name + "_stderr,none"] = error;
  }
  return results;
}

}  // namespace easydel

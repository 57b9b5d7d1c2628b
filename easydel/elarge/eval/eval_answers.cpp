#include "easydel/elarge/eval/eval_answers.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "easydel/core/error.h"
#include "easydel/elarge/eval/eval_filters.h"
#include "easydel/elarge/eval/ifeval.h"
#include "easydel/elarge/eval/run_code.h"
#include "easydel/text/jinja/builtins/unicode.h"
#include "easydel/text/regex/python_regex.h"

namespace easydel {
namespace {

constexpr std::string_view kPunctuation = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";
constexpr std::string_view kDigits = "0123456789";

std::vector<std::string> golds_of(const EvalAnswers& row) {
  std::vector<std::string> golds;
  const auto add = [&](const Json& one) { golds.push_back(one.is_string() ? one.as_string() : one.dump()); };
  if (row.gold.is_array()) {
    for (const Json& one : row.gold.as_array()) add(one);
  } else {
    add(row.gold);
  }
  return golds;
}

// What exact_match compares.
class ExactMatch {
 public:
  ExactMatch(const EvalTask& task, const Json& options)
      : ignores_case_(is_set(options, "ignore_case")),
        ignores_punctuation_(is_set(options, "ignore_punctuation")),
        ignores_numbers_(is_set(options, "ignore_numbers")) {
    if (const Json* patterns = options.find("regexes_to_ignore"); patterns && patterns->is_array()) {
      for (const Json& pattern : patterns->as_array())
        ignored_.emplace_back(pattern.as_string(), task.where("metric_list") + ": regexes_to_ignore");
    }
  }

  bool operator()(const std::string& answer, const std::string& gold) const { return kept(answer) == kept(gold); }

 private:
  static bool is_set(const Json& options, const char* key) {
    const Json* value = options.find(key);
    return value && value->is_bool() && value->as_bool();
  }

  std::string kept(std::string text) const {
    for (const PythonRegex& pattern : ignored_) text = pattern.removed_from(text);
    if (ignores_case_) text = jinja::to_lower(text);
    if (ignores_punctuation_)
      std::erase_if(text, [](char c) { return kPunctuation.find(c) != std::string_view::npos; });
    if (ignores_numbers_) std::erase_if(text, [](char c) { return kDigits.find(c) != std::string_view::npos; });
    return text;
  }

  bool ignores_case_, ignores_punctuation_, ignores_numbers_;
  std::vector<PythonRegex> ignored_;
};

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

double mean_error_of(const std::vector<double>& values) {
  const double middle = mean_of(values);
  double sum = 0;
  for (const double value : values) sum += (value - middle) * (value - middle);
  const auto count = static_cast<double>(values.size());
  return std::sqrt(sum / (count - 1)) / std::sqrt(count);
}

class AnswerMetrics {
 public:
  AnswerMetrics(const EvalTask& task, const std::vector<EvalAnswers>& rows, const AnswerOptions& options)
      : task_(task), rows_(rows), options_(options) {}

  Json results() {
    for (const EvalFilter& given : task_.filters) {
      const AnswerFilter filter(task_, given);
      filter_ = filter.name();
      filtered_.clear();
      for (const EvalAnswers& row : rows_) filtered_.push_back(filter.apply(row.answers, row.row));
      for (const EvalMetric& metric : task_.metrics) {
        require<ConfigError>(filter.takes_one() || metric.name == "pass_at_k", task_.where("filter_list"), ": \"",
                             filter_, "\" leaves several answers, and ", metric.name,
                             " compares one. End it with take_first or majority_vote.");
        if (metric.name == "exact_match") {
          add_exact_match(metric);
        } else if (metric.name == "pass_at_k") {
          add_pass_at_k(metric);
        } else {
          add_instructions(metric.name);
        }
      }
    }
    return std::move(results_);
  }

 private:
  void add(const std::string& metric, double value, const std::vector<double>* values) {
    results_[concat(metric, ",", filter_)] = value;
    const bool has_error = values && values->size() > 1 && options_.bootstrap_iters > 0;
    results_[concat(metric, "_stderr,", filter_)] = has_error ? Json(mean_error_of(*values)) : Json("N/A");
  }
  void add_mean(const std::string& metric, const std::vector<double>& values) { add(metric, mean_of(values), &values); }

  void add_exact_match(const EvalMetric& metric) {
    const ExactMatch is_same(task_, metric.options);
    std::vector<double> values;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      const std::vector<std::string> golds = golds_of(rows_[i]);
      values.push_back(std::any_of(golds.begin(), golds.end(),
                                   [&](const std::string& gold) { return is_same(filtered_[i][0], gold); }));
    }
    add_mean(metric.name, values);
  }

  void add_instructions(const std::string& metric) {
    const bool is_strict = metric.find("strict") != std::string::npos;
    std::vector<double> rows, each;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      const FollowedInstructions followed = follow_instructions(rows_[i].row, filtered_[i][0]);
      const std::vector<bool>& one = is_strict ? followed.strict : followed.loose;
      rows.push_back(std::all_of(one.begin(), one.end(), [](bool is) { return is; }));
      each.insert(each.end(), one.begin(), one.end());
    }
    if (metric.starts_with("prompt_level")) return add_mean(metric, rows);
    require<FormatError>(!each.empty(), "[eval] the rows of ", task_.name, " have no instructions.");
    add(metric, mean_of(each), nullptr);
  }

  void add_pass_at_k(const EvalMetric& metric) {
    require<ConfigError>(options_.python.has_value(), task_.where("metric_list"),
                         ": pass_at_k needs a python3 in PATH, and there is none.");
    std::vector<std::string> programs;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      for (const std::string& answer : filtered_[i]) programs.push_back(answer + "\n" + golds_of(rows_[i]).at(0));
    }
    const std::vector<bool> passed = run_programs(*options_.python, programs, options_.code_timeout);
    const Json& given = metric.options.at("k");
    const Json list = given.is_array() ? given : Json::array({given});
    for (const Json& k : list.as_array()) {
      std::vector<double> values;
      std::size_t next = 0;
      for (const std::vector<std::string>& answers : filtered_) {
        int64_t right = 0;
        for (std::size_t i = 0; i < answers.size(); ++i) right += passed[next++] ? 1 : 0;
        const auto count = static_cast<int64_t>(answers.size());
        require<ConfigError>(k.as_int() <= count, task_.where("metric_list"), ": k must be at most repeats, ", count,
                             "; got ", k.as_int(), ".");
        values.push_back(pass_at_k(count, right, k.as_int()));
      }
      add_mean(concat("pass@", k.as_int()), values);
    }
  }

  const EvalTask& task_;
  const std::vector<EvalAnswers>& rows_;
  const AnswerOptions& options_;
  std::string filter_;
  std::vector<std::vector<std::string>> filtered_;
  Json results_ = Json::object();
};

}  // namespace

bool runs_code(const EvalTask& task) {
  return task.unsafe_code || std::any_of(task.metrics.begin(), task.metrics.end(),
                                         [](const EvalMetric& metric) { return metric.name == "pass_at_k"; });
}

Json aggregate_answers(const EvalTask& task, const std::vector<EvalAnswers>& rows, const AnswerOptions& options) {
  require<FormatError>(!rows.empty(), "[eval] ", task.name, " has no rows.");
  return AnswerMetrics(task, rows, options).results();
}

}  // namespace easydel

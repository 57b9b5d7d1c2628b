#include "easydel/elarge/eval/eval_filters.h"

#include <algorithm>

#include "easydel/core/error.h"
#include "easydel/elarge/config/section_keys.h"
#include "easydel/elarge/eval/python_text.h"
#include "easydel/text/jinja/builtins/unicode.h"
#include "easydel/text/regex/python_regex.h"

namespace easydel {
namespace {

using std::string_view;

struct FilterRule {
  string_view name;
  std::vector<string_view> options;
};

const std::vector<FilterRule>& filter_rules() {
  static const std::vector<FilterRule> rules = {{"regex", {"regex_pattern", "group_select", "fallback"}},
                                                {"remove_whitespace", {}},
                                                {"lowercase", {}},
                                                {"uppercase", {}},
                                                {"map", {"mapping_dict", "default_value"}},
                                                {"majority_vote", {}},
                                                {"take_first", {}},
                                                {"take_first_k", {"k"}},
                                                {"custom", {"filter_fn"}}};
  return rules;
}

// The harness's functions of tasks/humaneval/utils.py.
constexpr string_view kBuildPredictions = "build_predictions", kBuildInstruct = "build_predictions_instruct";

void check_filter_option(const std::string& where, const std::string& key, const Json& value) {
  const auto check = [&](bool is_right, string_view rule) {
    require<ConfigError>(is_right, where, ": ", key, " must be ", rule, "; got ", value.dump(), ".");
  };
  if (key == "group_select") {
    check(value.is_int(), "an integer");
  } else if (key == "k") {
    check(value.is_int() && value.as_int() > 0, "an integer above 0");
  } else if (key == "mapping_dict") {
    check(value.is_object(), "a mapping");
    for (const auto& [from, to] : value.as_object())
      check(to.is_string() || to.is_int(), "a mapping from strings to strings");
  } else if (key == "default_value") {
    check(value.is_string() || value.is_int() || value.is_null(), "a text");
  } else if (key == "filter_fn") {
    require<NotSupportedError>(value == Json(kBuildPredictions) || value == Json(kBuildInstruct), where,
                               ": filter_fn must be one that is built in, build_predictions or "
                               "build_predictions_instruct; got ",
                               value.dump(), ".");
  } else {
    check(value.is_string(), "a text");
  }
}

EvalFilter::Step read_filter_step(const std::string& where, const Json& given) {
  const Json* name = given.find("function");
  require<ConfigError>(name && name->is_string(), where,
                       ": each step needs a function, as in - function: take_first; got ", given.dump(), ".");
  std::vector<string_view> names;
  const FilterRule* rule = nullptr;
  std::string listed;
  for (const FilterRule& other : filter_rules()) {
    names.push_back(other.name);
    listed += concat(listed.empty() ? "" : ", ", other.name);
    if (other.name == name->as_string()) rule = &other;
  }
  require<NotSupportedError>(rule != nullptr, where, ": \"", name->as_string(), "\" is not a filter; known: ", listed,
                             ".");
  EvalFilter::Step step{std::string(rule->name), Json::object()};
  for (const auto& [key, value] : given.as_object()) {
    if (key == "function") continue;
    const std::string near = nearest_name(key, rule->options);
    require<ConfigError>(std::find(rule->options.begin(), rule->options.end(), key) != rule->options.end(), where, ": ",
                         key, " is not an option of ", rule->name, ".",
                         near.empty() ? "" : concat(" Did you mean \"", near, "\"?"));
    check_filter_option(where, key, value);
    step.options[key] = value;
  }
  for (const char* needed : {"k", "filter_fn"}) {
    const bool takes = std::find(rule->options.begin(), rule->options.end(), needed) != rule->options.end();
    require<ConfigError>(!takes || step.options.contains(needed), where, ": ", rule->name, " needs ", needed, ".");
  }
  return step;
}

std::string plain_text(const Json& value) { return value.is_string() ? value.as_string() : value.dump(); }

// The one that occurs most often; the first of equals.
std::string most_common(const std::vector<std::string>& answers) {
  const auto votes = [&](const std::string& answer) { return std::count(answers.begin(), answers.end(), answer); };
  return *std::max_element(answers.begin(), answers.end(),
                           [&](const auto& a, const auto& b) { return votes(a) < votes(b); });
}

}  // namespace

std::vector<EvalFilter> read_filters(const EvalTask& task, const Json* list) {
  if (!list) return {EvalFilter{}};
  const std::string where = task.where("filter_list");
  require<ConfigError>(list->is_array() && list->size() > 0, where, " must be a list of filters; got ", list->dump(),
                       ".");
  std::vector<EvalFilter> filters;
  for (const Json& entry : list->as_array()) {
    const Json* name = entry.find("name");
    const Json* steps = entry.find("filter");
    require<ConfigError>(name && name->is_string() && steps && steps->is_array() && steps->size() > 0, where,
                         ": each entry needs a name and a filter, a list of functions; got ", entry.dump(), ".");
    for (const auto& [key, value] : entry.as_object())
      require<ConfigError>(key == "name" || key == "filter", where, ": ", key,
                           " is not a key of a filter; known: name, filter.");
    EvalFilter filter{name->as_string(), {}};
    for (const EvalFilter& other : filters)
      require<ConfigError>(other.name != filter.name, where, " has \"", filter.name, "\" twice.");
    for (const Json& step : steps->as_array()) {
      require<ConfigError>(filter.steps.empty() || filter.steps.back().function != "take_first", where, ": \"",
                           filter.name, "\" must have take_first as its last function.");
      filter.steps.push_back(read_filter_step(where, step));
    }
    filters.push_back(std::move(filter));
  }
  return filters;
}

AnswerFilter::AnswerFilter(const EvalTask& task, const EvalFilter& filter)
    : filter_(filter), where_(concat(task.where("filter_list"), ": \"", filter.name, "\"")) {
  int64_t left = task.repeats;
  for (const EvalFilter::Step& step : filter_.steps) {
    regexes_.emplace_back();
    if (step.function == "regex") {
      const Json* pattern = step.options.find("regex_pattern");
      regexes_.back() = std::make_unique<PythonRegex>(pattern ? pattern->as_string() : R"(#### (\-?[0-9\.\,]+))",
                                                      where_ + ": regex_pattern");
    } else if (step.function == "take_first_k") {
      const int64_t k = step.options.at("k").as_int();
      require<ConfigError>(k <= left, where_, ": k must be at most the number of answers, ", left, "; got ", k,
                           ". Raise repeats.");
      left = k;
    } else if (step.function == "majority_vote" || step.function == "take_first") {
      left = 1;
    }
  }
  takes_one_ = left == 1;
}

AnswerFilter::~AnswerFilter() = default;

// findall of the pattern; of the groups of a match, the first that is not empty.
std::string AnswerFilter::extract(const EvalFilter::Step& step, const PythonRegex& regex,
                                  const std::string& answer) const {
  const Json* fallback = step.options.find("fallback");
  const std::string otherwise = fallback ? fallback->as_string() : "[invalid]";
  const Json* select = step.options.find("group_select");
  const int64_t index = select ? select->as_int() : 0;
  const std::vector<PythonRegex::Match> matches = regex.find_all(answer);
  if (matches.empty()) return otherwise;
  const auto count = static_cast<int64_t>(matches.size());
  const int64_t at = index < 0 ? index + count : index;
  require<FormatError>(at >= 0 && at < count, where_, ": group_select is ", index, "; an answer has ", count,
                       " matches.");
  const PythonRegex::Match& match = matches[static_cast<std::size_t>(at)];
  if (match.groups.empty()) return python_strip(std::string_view(answer).substr(match.begin, match.end - match.begin));
  if (match.groups.size() == 1) return python_strip(match.groups[0]);
  for (const std::string_view group : match.groups) {
    if (!group.empty()) return python_strip(group);
  }
  return python_strip(otherwise);
}

std::string AnswerFilter::look_up(const EvalFilter::Step& step, const std::string& answer, const data::Row& row) const {
  const Json* mapping = step.options.find("mapping_dict");
  const Json* found = mapping ? mapping->find(answer) : nullptr;
  if (!found) found = step.options.find("default_value");
  require<FormatError>(found && !found->is_null(), where_, ": mapping_dict has no \"", answer, "\", the answer to ",
                       row.place(), ", and there is no default_value.");
  return plain_text(*found);
}

std::string AnswerFilter::with_prompt(const EvalFilter::Step& step, const std::string& answer,
                                      const data::Row& row) const {
  const Json* prompt = row.values.find("prompt");
  require<FormatError>(prompt && prompt->is_string(), where_, ": ", row.place(), " has no field \"prompt\".");
  const bool is_chat = step.options.at("filter_fn") == Json(kBuildInstruct);
  return prompt->as_string() + (is_chat ? answer.substr(0, answer.find("```")) : answer);
}

std::vector<std::string> AnswerFilter::apply(std::vector<std::string> answers, const data::Row& row) const {
  for (std::size_t i = 0; i < filter_.steps.size(); ++i) {
    const EvalFilter::Step& step = filter_.steps[i];
    if (step.function == "take_first" || step.function == "take_first_k") {
      answers.resize(step.function == "take_first" ? 1 : static_cast<std::size_t>(step.options.at("k").as_int()));
      continue;
    }
    if (step.function == "majority_vote") {
      answers = {most_common(answers)};
      continue;
    }
    for (std::string& answer : answers) {
      if (step.function == "regex") {
        answer = extract(step, *regexes_[i], answer);
      } else if (step.function == "remove_whitespace") {
        answer = python_strip(answer);
      } else if (step.function == "lowercase") {
        answer = jinja::to_lower(answer);
      } else if (step.function == "uppercase") {
        answer = jinja::to_upper(answer);
      } else if (step.function == "map") {
        answer = look_up(step, answer, row);
      } else {
        answer = with_prompt(step, answer, row);
      }
    }
  }
  return answers;
}

}  // namespace easydel

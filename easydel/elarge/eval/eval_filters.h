// What lm-evaluation-harness does to answers before they are compared: filter_list.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "easydel/core/json/json.h"
#include "easydel/data/sources/source.h"
#include "easydel/elarge/eval/eval_task.h"

namespace easydel {

class PythonRegex;

// Those of a task's filter_list; null: one that takes the first answer. ConfigError, or NotSupportedError on a function
// that is not here.
std::vector<EvalFilter> read_filters(const EvalTask& task, const Json* filter_list);

// One filter, ready to use. FormatError on a pattern that is no regular expression.
class AnswerFilter {
 public:
  AnswerFilter(const EvalTask& task, const EvalFilter& filter);
  ~AnswerFilter();

  // The answers that are left of those to one row: one after take_first. Their order stays.
  std::vector<std::string> apply(std::vector<std::string> answers, const data::Row& row) const;
  const std::string& name() const { return filter_.name; }
  bool takes_one() const { return takes_one_; }

 private:
  std::string extract(const EvalFilter::Step& step, const PythonRegex& regex, const std::string& answer) const;
  std::string look_up(const EvalFilter::Step& step, const std::string& answer, const data::Row& row) const;
  std::string with_prompt(const EvalFilter::Step& step, const std::string& answer, const data::Row& row) const;

  EvalFilter filter_;
  std::string where_;
  std::vector<std::unique_ptr<PythonRegex>> regexes_;  // of each step; null for those without
  bool takes_one_ = false;
};

}  // namespace easydel

// The texts of a task's rows: what doc_to_text, doc_to_target and doc_to_choice make of them.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "easydel/core/json/json.h"
#include "easydel/data/sources/source.h"
#include "easydel/elarge/eval/eval_task.h"
#include "easydel/text/jinja/template.h"

namespace easydel {

// One such key. FormatError names the row when it lacks the field or when the template fails on it; ConfigError when
// the template cannot be parsed.
class RowField {
 public:
  RowField() = default;
  // `fields` are those of the data.
  RowField(Json given, std::string where, const std::set<std::string>& fields);
  // ConfigError when it is one word that is nearly a field.
  void refuse_slips(const std::set<std::string>& fields) const;

  // A template's text, with `rendered` set; the value of a field; or what was given.
  Json value(const data::Row& row, bool* rendered = nullptr) const;
  const std::string& where() const { return where_; }
  bool is_given() const { return !given_.is_null(); }

 private:
  Json given_;
  std::string where_;
  bool is_field_ = false;
  std::optional<jinja::Template> template_;
};

class RowFormat {
 public:
  // With `choices`, digits that a template prints are an index, as where the task has doc_to_choice.
  RowFormat(const EvalTask& task, const TaskFormat& format, const std::set<std::string>& fields, bool choices);

  Json text(const data::Row& row) const;    // a text or an index
  Json target(const data::Row& row) const;  // a text, a number (an index where there are choices) or a list of these
  std::vector<std::string> choices(const data::Row& row) const;  // empty when there is no doc_to_choice
  std::string prefix(const data::Row& row) const;                // gen_prefix; empty when there is none
  const TaskFormat& format() const { return format_; }

 private:
  TaskFormat format_;
  bool has_choices_;
  RowField text_, target_, choice_, prefix_;
};

// A Python index into the choices. FormatError with the row when there is no such one.
std::size_t choice_index(int64_t index, std::size_t choices, const std::string& where, const data::Row& row);

}  // namespace easydel

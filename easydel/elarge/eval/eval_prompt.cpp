#include "easydel/elarge/eval/eval_prompt.h"

#include <algorithm>

#include "easydel/core/error.h"
#include "easydel/elarge/eval/eval_data.h"
#include "easydel/text/jinja/builtins/unicode.h"

namespace easydel {
namespace {

bool ends_in_space(const std::string& text) {
  std::size_t end = text.size();
  return !text.empty() && jinja::is_space(jinja::last_character(text, end));
}

bool begins_in_space(const std::string& text) {
  std::size_t at = 0;
  return !text.empty() && jinja::is_space(jinja::next_character(text, at));
}

std::string joined(const std::string& before, const std::string& after, const std::string& delimiter) {
  if (before.empty() || after.empty()) return before + after;
  return ends_in_space(before) || begins_in_space(after) ? before + after : before + delimiter + after;
}

}  // namespace

PromptBuilder::PromptBuilder(const EvalTask& task, data::SourcePtr rows, const PromptOptions& options)
    : task_(task), rows_(std::move(rows)), options_(options), random_(options.fewshot_random_seed) {
  const std::set<std::string> fields = fields_of(*rows_);
  const bool choices = !task.format.doc_to_choice.is_null();
  format_.emplace(task, task.format, fields, choices);
  description_ = RowField(task.description, task.where("description"), fields);
  if (task.output == EvalOutput::MultipleChoice)
    choices_are_contexts_ = format_->text({rows_->row(0), rows_.get(), 0}).is_int();
  if (options.num_fewshot == 0) return;
  if (task.fewshot_split) {
    pool_ = open_split(task, *task.fewshot_split);
  } else if (task.samples) {
    pool_ = data::make_source(*task.samples, task.where("fewshot_config") + ".samples");
  } else if (task.training_split || task.validation_split) {
    pool_ = open_split(task, task.training_split ? *task.training_split : *task.validation_split);
  } else {
    pool_ = rows_;
  }
  shot_format_.emplace(task, task.fewshot_format, fields_of(*pool_), choices);
}

// As random.sample of the harness's sampler draws them; one more where the row itself may be among them.
std::vector<Json> PromptBuilder::draw(const Json* leave_out) {
  const int64_t count = options_.num_fewshot, size = pool_->size();
  std::vector<Json> drawn;
  const auto keep = [&](int64_t index) {
    Json row = pool_->row(index);
    if (static_cast<int64_t>(drawn.size()) < count && !(leave_out && row == *leave_out))
      drawn.push_back(std::move(row));
  };
  const int64_t extra = leave_out && task_.sampler == "default" ? 1 : 0, needed = std::min(count, size) + extra;
  require<ConfigError>(count <= size - extra, task_.where("num_fewshot"), " is ", count, "; there are ", size,
                       " rows to draw from", extra ? ", including the question itself." : ".");
  if (task_.sampler == "first_n") {
    for (int64_t i = 0; i < size && static_cast<int64_t>(drawn.size()) < count; ++i) keep(i);
  } else {
    for (const int64_t index : random_.sample(size, needed)) keep(index);
    if (static_cast<int64_t>(drawn.size()) < count) {  // the row was there more than once
      drawn.clear();
      std::vector<int64_t> others;
      for (int64_t i = 0; i < size; ++i) {
        if (!(pool_->row(i) == *leave_out)) others.push_back(i);
      }
      const auto left = static_cast<int64_t>(others.size());
      if (left >= count) {
        for (const int64_t index : random_.sample(left, count)) keep(others[static_cast<std::size_t>(index)]);
      }
    }
  }
  require<ConfigError>(static_cast<int64_t>(drawn.size()) == count, task_.where("num_fewshot"), " is ", count,
                       "; there are ", drawn.size(), " rows to draw from other than the question itself.");
  return drawn;
}

std::vector<PromptBuilder::Message> PromptBuilder::turn(const std::string& question, const std::string& answer,
                                                        const std::string& prefix, const TaskFormat& format) const {
  const bool touch = !question.empty() && !prefix.empty() && !ends_in_space(question) && !begins_in_space(prefix);
  const bool is_apart = prefix.empty() ? !answer.empty() : touch;
  std::vector<Message> messages = {{"user", question, is_apart ? format.target_delimiter : ""}};
  if (!answer.empty()) {
    messages.push_back({"assistant", joined(prefix, answer, " "), format.fewshot_delimiter});
  } else if (!prefix.empty()) {
    messages.push_back({"assistant", prefix, ""});
  }
  return messages;
}

void PromptBuilder::add_shots(const Json& row, std::vector<Message>& messages) {
  if (options_.num_fewshot == 0) return;
  const bool may_be_itself = task_.fewshot_split == task_.test_split;
  for (Json& example : draw(may_be_itself ? &row : nullptr)) {
    const data::SourcePtr own = data::make_source({example}, "a few-shot example of " + task_.name);
    for (Message& message : shot({std::move(example), own.get(), 0})) messages.push_back(std::move(message));
  }
}

std::vector<PromptBuilder::Message> PromptBuilder::shot(const data::Row& row) const {
  Json question = shot_format_->text(row);
  const std::vector<std::string> choices = shot_format_->choices(row);
  Json answer = shot_format_->target(row);
  const std::string where = task_.where("doc_to_target");
  if (choices_are_contexts_) {
    require<FormatError>(question.is_int(), task_.where("doc_to_text"), " must give an index for ", row.place(),
                         ", as for the other rows; got ", question.dump(), ".");
    question = choices[choice_index(question.as_int(), choices.size(), task_.where("doc_to_text"), row)];
  } else if (answer.is_int() && !choices.empty()) {
    answer = choices[choice_index(answer.as_int(), choices.size(), where, row)];
  }
  if (answer.is_array()) answer = Json(answer.at(0));
  require<FormatError>(question.is_string(), task_.where("doc_to_text"), " must give a string for ", row.place(),
                       "; got ", question.dump(), ".");
  require<FormatError>(answer.is_string(), where, " must give a string for ", row.place(), "; got ", answer.dump(),
                       ".");
  return turn(question.as_string(), answer.as_string(), shot_format_->prefix(row), shot_format_->format());
}

std::string PromptBuilder::context(const std::vector<Message>& before, const std::string& question,
                                   const std::string& prefix) const {
  std::vector<Message> messages = before;
  for (Message& message : turn(question, "", prefix, task_.format)) messages.push_back(std::move(message));
  if (options_.chat) return chat_context(std::move(messages), !prefix.empty());
  std::string text;
  for (const Message& message : messages) text += message.content + message.delimiter;
  return text;
}

// Unless they are turns of their own, examples and question are one message of the user.
std::string PromptBuilder::chat_context(std::vector<Message> messages, bool continues) const {
  Json sent = Json::array();
  const auto send = [&](const std::string& role, const std::string& content) {
    sent.push_back(Json::object({{"role", role}, {"content", content}}));
  };
  if (options_.fewshot_as_multiturn) {
    for (const Message& message : messages) send(message.role, message.content);
    return options_.chat(sent, continues);
  }
  if (messages.front().role == "system") {
    send("system", messages.front().content);
    messages.erase(messages.begin());
  }
  const std::string prefix = continues ? messages.back().content : "";
  if (continues) messages.pop_back();
  messages.back().delimiter.clear();
  std::string text;
  for (const Message& message : messages) text += message.content + message.delimiter;
  send("user", text);
  if (continues) send("assistant", prefix);
  return options_.chat(sent, continues);
}

std::string PromptBuilder::delimiter(const std::string& prefix) const {
  const bool is_kept = !options_.chat || (!prefix.empty() && !ends_in_space(prefix));
  return is_kept ? task_.format.target_delimiter : "";
}

std::vector<std::size_t> PromptBuilder::gold_of(const data::Row& row, const Json& given, std::size_t choices,
                                                const std::vector<std::string>& texts) const {
  const std::string where = task_.where(choices_are_contexts_ ? "doc_to_text" : "doc_to_target");
  std::vector<std::size_t> gold;
  const auto add = [&](const Json& one) {
    if (one.is_int()) return gold.push_back(choice_index(one.as_int(), choices, where, row));
    const auto found = std::find(texts.begin(), texts.end(), one.as_string());
    require<FormatError>(found != texts.end() && !given.is_array(), where, " gives \"", one.as_string(), "\" for ",
                         row.place(), ", which is not one of its ", choices, " choices.");
    gold.push_back(static_cast<std::size_t>(found - texts.begin()));
  };
  if (given.is_array()) {
    for (const Json& one : given.as_array()) add(one);
  } else {
    add(given);
  }
  return gold;
}

Json PromptBuilder::answer_of(const data::Row& row, const Json& target) const {
  const std::vector<std::string> choices = format_->choices(row);
  if (choices.empty()) return target;
  require<FormatError>(target.is_int(), task_.where("doc_to_target"), " must give the index of a choice for ",
                       row.place(), "; got ", target.dump(), ".");
  return choices[choice_index(target.as_int(), choices.size(), task_.where("doc_to_target"), row)];
}

EvalQuestion PromptBuilder::build(int64_t index) {
  const data::Row row{rows_->row(index), rows_.get(), index};
  EvalQuestion question{.place = row.place()};
  const auto text_of = [&](const Json& value, const std::string& key) {
    require<FormatError>(value.is_string(), task_.where(key), " must give a string for ", row.place(), "; got ",
                         value.dump(), ".");
    return value.as_string();
  };
  const Json target = format_->target(row);
  if (task_.output == EvalOutput::LoglikelihoodRolling) {
    question.requests = {{"", text_of(target, "doc_to_target")}};
    return question;
  }
  const std::string description = text_of(description_.value(row), "description");
  const std::string system = joined(options_.system_instruction, description, task_.format.fewshot_delimiter);
  std::vector<Message> before;
  if (!system.empty()) before.push_back({"system", system, ""});
  add_shots(row.values, before);
  const Json text = format_->text(row);
  const std::string prefix = format_->prefix(row);
  if (task_.output == EvalOutput::Loglikelihood || task_.output == EvalOutput::GenerateUntil) {
    question.requests = {{context(before, text_of(text, "doc_to_text"), prefix), ""}};
    if (task_.output == EvalOutput::GenerateUntil) {
      question.answer = answer_of(row, target);
    } else {
      question.requests[0].continuation = text_of(target, "doc_to_target");
    }
    return question;
  }
  question.choices = format_->choices(row);
  if (choices_are_contexts_) {
    require<NotSupportedError>(!options_.chat && prefix.empty(), task_.where("doc_to_text"),
                               " is an index, which is not supported with a chat template or gen_prefix.");
    const std::string continuation = task_.format.target_delimiter + text_of(target, "doc_to_target");
    for (const std::string& choice : question.choices)
      question.requests.push_back({context(before, choice, ""), continuation});
    require<FormatError>(text.is_int(), task_.where("doc_to_text"), " must give an index for ", row.place(),
                         ", as for the first row; got ", text.dump(), ".");
    question.gold = gold_of(row, text, question.choices.size(), {});
  } else {
    const std::string asked = context(before, text_of(text, "doc_to_text"), prefix);
    for (const std::string& choice : question.choices) question.requests.push_back({asked, delimiter(prefix) + choice});
    question.gold = gold_of(row, target, question.choices.size(), question.choices);
  }
  return question;
}

}  // namespace easydel

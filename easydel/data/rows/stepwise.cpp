#include "easydel/data/rows/stepwise.h"

#include <algorithm>

#include "easydel/core/error.h"
#include "easydel/data/sources/text_codec.h"

namespace easydel::data {
namespace {

const Json::Array& list_of(const Row& row, const char* name) {
  const Json& value = field_of(row, name);
  require<FormatError>(value.is_array(), "[", row.place(), "] \"", name, "\" must be a list; got ", value.type_name(),
                       ".");
  return value.as_array();
}

int64_t label_of(const Row& row, const Json& label) {
  const bool is_number = label.is_int() && (label.as_int() == 0 || label.as_int() == 1);
  require<FormatError>(label.is_bool() || is_number, "[", row.place(),
                       "] \"labels\" must be true or false for each step; got ", label.dump(), ".");
  return label.is_bool() ? (label.as_bool() ? 1 : 0) : label.as_int();
}

void cut(std::vector<int64_t>& values, std::optional<int64_t> length, bool keep_end) {
  if (!length || static_cast<int64_t>(values.size()) <= *length) return;
  if (keep_end) values.erase(values.begin(), values.end() - *length);
  values.resize(static_cast<std::size_t>(*length));
}

}  // namespace

Transform make_stepwise_transform(const AutoTokenizer& tokenizer, const StepwiseOptions& options) {
  const TextCodec codec(tokenizer);
  const Ids separator = codec.encode(options.step_separator, false);
  require<ConfigError>(!separator.empty(), "[prm] step_separator must have a token, which gets the label; got \"",
                       options.step_separator, "\".");
  return [codec, separator, options](const Row& row) -> std::optional<Example> {
    const auto& steps = list_of(row, "completions");
    const auto& labels = list_of(row, "labels");
    require<FormatError>(steps.size() == labels.size(), "[", row.place(), "] \"labels\" must have one for each of the ",
                         steps.size(), " completions; got ", labels.size(), ".");
    Ids answer, targets;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      require<FormatError>(steps[i].is_string(), "[", row.place(), "] \"completions\" must be texts; got ",
                           steps[i].type_name(), ".");
      const Ids ids = codec.encode(steps[i].as_string(), false);
      answer.insert(answer.end(), ids.begin(), ids.end());
      answer.insert(answer.end(), separator.begin(), separator.end());
      const int64_t label = label_of(row, labels[i]);
      targets.resize(answer.size(), kNoLoss);
      if (!options.last_step_only || i + 1 == steps.size()) targets.back() = label;
    }
    cut(answer, options.max_completion_length, false);
    cut(targets, options.max_completion_length, false);
    Example example;
    if (const auto bos = codec.bos_token_id()) example.input_ids.push_back(*bos);
    const Ids prompt = codec.encode(text_of(row, "prompt"), false);
    example.input_ids.insert(example.input_ids.end(), prompt.begin(), prompt.end());
    example.labels.assign(example.input_ids.size(), kNoLoss);
    example.input_ids.insert(example.input_ids.end(), answer.begin(), answer.end());
    example.labels.insert(example.labels.end(), targets.begin(), targets.end());
    cut(example.input_ids, options.max_length, options.keep_end);
    cut(example.labels, options.max_length, options.keep_end);
    const bool has_label = std::any_of(example.labels.begin(), example.labels.end(), [](int64_t l) { return l >= 0; });
    return has_label ? std::optional(std::move(example)) : std::nullopt;
  };
}

}  // namespace easydel::data

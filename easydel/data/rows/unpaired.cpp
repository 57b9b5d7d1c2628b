// Rows with one answer: a prompt alone, or with a completion and whether that is wanted.
#include <algorithm>

#include "easydel/core/error.h"
#include "easydel/data/rows/preference.h"
#include "easydel/data/rows/preference_row.h"

namespace easydel::data {
namespace {

Ids head(const Ids& ids, std::size_t count) { return {ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(count)}; }

double label_of(const Row& row) {
  const Json& label = field_of(row, "label");
  const bool is_number = label.is_int() && (label == Json(0) || label == Json(1));
  require<FormatError>(label.is_bool() || is_number, "[", row.place(),
                       "] \"label\" must be true for a desirable answer and false for an undesirable one; got ",
                       label.dump(), ".");
  return (label.is_bool() ? label.as_bool() : label == Json(1)) ? 1 : 0;
}

class Unpaired {
 public:
  Unpaired(const AutoTokenizer& tokenizer, const PreferenceOptions& options)
      : codec_(tokenizer, options.codec), options_(options) {}

  std::optional<Example> operator()(const Row& row) const {
    require<FormatError>(
        row.values.contains("completion") || !row.values.contains("chosen"), "[", row.place(),
        "] this trainer reads a prompt, a completion and a label; got a pair of answers. Make two rows "
        "of it, the chosen answer with the label true and the rejected one with false, or use dpo.");
    const Json& prompt = field_of(row, "prompt");
    const Json& completion = field_of(row, "completion");
    Ids before, all;
    if (is_conversation(prompt)) {
      require<FormatError>(is_conversation(completion), "[", row.place(),
                           "] where \"prompt\" is a list of messages, \"completion\" must be one; got ",
                           completion.type_name(), ".");
      before = codec_.encode_chat(prompt, row, {.add_generation_prompt = true}).ids;
      all = codec_.encode_chat(joined(prompt, completion), row, {}).ids;
    } else {
      const std::string& text = text_of(row, "prompt");
      before = codec_.encode(text);
      all = codec_.encode(text + codec_.with_eos(text_of(row, "completion")));
    }
    const std::size_t length = common_prefix(before, all);
    const bool fits = !options_.max_length || options_.truncation_mode == "keep_end" ||
                      static_cast<int64_t>(length) < *options_.max_length;
    if (!fits) return std::nullopt;
    Example out;
    out.others["prompt_ids"] = head(before, length);
    out.others["completion_ids"] = {all.begin() + static_cast<std::ptrdiff_t>(length), all.end()};
    out.numbers["label"] = label_of(row);
    return out;
  }

 private:
  TextCodec codec_;
  PreferenceOptions options_;
};

class Prompt {
 public:
  Prompt(const AutoTokenizer& tokenizer, const PreferenceOptions& options)
      : codec_(tokenizer, options.codec), options_(options) {}

  std::optional<Example> operator()(const Row& row) const {
    // Of a pair without a prompt it is what both answers begin with.
    const bool is_pair = !row.values.contains("prompt") && row.values.contains("chosen");
    const Json prompt = is_pair ? read_preference(row, false).prompt : field_of(row, "prompt");
    Ids ids = is_conversation(prompt) ? codec_.encode_chat(prompt, row, {.add_generation_prompt = true}).ids
                                      : codec_.encode(is_pair ? prompt.as_string() : text_of(row, "prompt"));
    require<FormatError>(!ids.empty(), "[", row.place(), "] \"prompt\" has no tokens.");
    if (options_.max_length && static_cast<int64_t>(ids.size()) > *options_.max_length) {
      const auto most = static_cast<std::ptrdiff_t>(*options_.max_length);
      if (options_.truncation_mode == "keep_end") ids.erase(ids.begin(), ids.end() - most);
      ids.resize(static_cast<std::size_t>(most));
    }
    Example out;
    out.others["prompt_ids"] = std::move(ids);
    out.row = row.values;
    return out;
  }

 private:
  TextCodec codec_;
  PreferenceOptions options_;
};

}  // namespace

Transform make_unpaired_transform(const AutoTokenizer& tokenizer, const PreferenceOptions& options) {
  check(options);
  return Unpaired(tokenizer, options);
}

Transform make_prompt_transform(const AutoTokenizer& tokenizer, const PreferenceOptions& options) {
  check(options);
  return Prompt(tokenizer, options);
}

}  // namespace easydel::data

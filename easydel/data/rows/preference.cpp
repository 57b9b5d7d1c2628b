#include "easydel/data/rows/preference.h"

#include <algorithm>

#include "easydel/core/error.h"
#include "easydel/data/rows/preference_row.h"

namespace easydel::data {
namespace {

Ids part(const Ids& ids, std::size_t begin, std::size_t end) {
  end = std::min(end, ids.size());
  return {ids.begin() + static_cast<std::ptrdiff_t>(std::min(begin, end)),
          ids.begin() + static_cast<std::ptrdiff_t>(end)};
}

int64_t length_of(const Ids& ids) { return static_cast<int64_t>(ids.size()); }

class Dpo {
 public:
  Dpo(const AutoTokenizer& tokenizer, const PreferenceOptions& options)
      : codec_(tokenizer, options.codec), options_(options) {}

  std::optional<Example> operator()(const Row& row) const {
    const PreferenceRow pair = read_preference(row, false);
    Ids prompt, chosen, rejected;
    if (pair.is_conversational) {
      if (pair.prompt.size() > 0) prompt = codec_.encode_chat(pair.prompt, row, {.add_generation_prompt = true}).ids;
      chosen = codec_.encode_chat(joined(pair.prompt, pair.chosen), row, {}).ids;
      rejected = codec_.encode_chat(joined(pair.prompt, pair.rejected), row, {}).ids;
    } else {
      const std::string& text = pair.prompt.as_string();
      prompt = codec_.encode(text);
      chosen = codec_.encode(text + codec_.with_eos(pair.chosen.as_string()));
      rejected = codec_.encode(text + codec_.with_eos(pair.rejected.as_string()));
    }
    // Tokens may merge across the end of the prompt; the answers begin where the ids differ.
    const std::size_t length = std::min(common_prefix(prompt, chosen), common_prefix(prompt, rejected));
    const bool fits = !options_.max_length || options_.truncation_mode == "keep_end" ||
                      static_cast<int64_t>(length) < *options_.max_length;
    if (!fits) return std::nullopt;
    Example out;
    out.others["prompt_ids"] = part(prompt, 0, length);
    out.others["chosen_ids"] = part(chosen, length, chosen.size());
    out.others["rejected_ids"] = part(rejected, length, rejected.size());
    return out;
  }

 private:
  TextCodec codec_;
  PreferenceOptions options_;
};

class Reward {
 public:
  Reward(const AutoTokenizer& tokenizer, const PreferenceOptions& options)
      : codec_(tokenizer, options.codec), options_(options) {}

  std::optional<Example> operator()(const Row& row) const {
    Example out;
    for (const std::string name : {"chosen", "rejected"}) {
      Ids ids = encode(row, name);
      if (options_.max_length && length_of(ids) > *options_.max_length) return std::nullopt;
      out.others[name + "_ids"] = std::move(ids);
    }
    if (const Json* margin = row.values.find("margin"); margin && !margin->is_null()) {
      require<FormatError>(margin->is_number(), "[", row.place(), "] \"margin\" must be a number; got ",
                           margin->type_name(), ".");
      out.numbers["margin"] = margin->as_double();
    }
    return out;
  }

 private:
  Ids encode(const Row& row, const std::string& name) const {
    const Json& answer = field_of(row, name);
    const Json* prompt = row.values.find("prompt");
    if (!is_conversation(answer)) {
      const std::string before = prompt ? text_of(row, "prompt") : "";
      return codec_.encode(before + codec_.with_eos(text_of(row, name)));
    }
    require<FormatError>(!prompt || is_conversation(*prompt), "[", row.place(),
                         "] \"prompt\" must be a list of messages, as \"", name, "\" is; got ",
                         prompt ? prompt->type_name() : "", ".");
    return codec_.encode_chat(prompt ? joined(*prompt, answer) : answer, row, {}).ids;
  }

  TextCodec codec_;
  PreferenceOptions options_;
};

}  // namespace

void check(const PreferenceOptions& options) {
  require<ConfigError>(options.truncation_mode == "keep_start" || options.truncation_mode == "keep_end",
                       "[truncation_mode] must be keep_start or keep_end; got \"", options.truncation_mode, "\".");
  require<ConfigError>(options.max_length.value_or(1) > 0, "[max_length] must be above 0; got ",
                       options.max_length.value_or(1), ".");
}

Transform make_dpo_transform(const AutoTokenizer& tokenizer, const PreferenceOptions& options) {
  check(options);
  return Dpo(tokenizer, options);
}

Transform make_reward_transform(const AutoTokenizer& tokenizer, const PreferenceOptions& options) {
  check(options);
  return Reward(tokenizer, options);
}

}  // namespace easydel::data

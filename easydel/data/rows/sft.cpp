#include "easydel/data/rows/sft.h"

#include <algorithm>

#include "easydel/core/error.h"
#include "easydel/data/rows/row_ids.h"

namespace easydel::data {
namespace {

using Mask = std::vector<uint8_t>;

class Sft {
 public:
  Sft(const AutoTokenizer& tokenizer, const SftOptions& options) : codec_(tokenizer, options.codec), options_(options) {
    require<ConfigError>(options.truncation_mode == "keep_start" || options.truncation_mode == "keep_end",
                         "[truncation_mode] must be keep_start or keep_end; got \"", options.truncation_mode, "\".");
    require<ConfigError>(options.max_length.value_or(1) > 0, "[max_length] must be above 0; got ",
                         options.max_length.value_or(1), ".");
  }

  std::optional<Example> operator()(const Row& given) const {
    Row row = to_chatml(given);
    if (!row.values.contains(options_.dataset_text_field))
      row = from_alpaca(std::move(row), codec_.has_chat_template());
    Tokens tokens = tokenize(row);
    Example out{.input_ids = std::move(tokens.ids), .labels = std::move(tokens.labels)};
    if (out.labels.empty()) {
      out.labels = out.input_ids;
      for (std::size_t i = 0; i < out.labels.size(); ++i) {
        const bool counts = (!options_.completion_only_loss || at(tokens.completion, i)) && at(tokens.assistant, i);
        if (!counts) out.labels[i] = kNoLoss;
      }
    }
    if (!options_.max_length) return out;
    truncate(out.input_ids);
    truncate(out.labels);
    const bool any = std::any_of(out.labels.begin(), out.labels.end(), [](int64_t label) { return label != kNoLoss; });
    return any ? std::optional(std::move(out)) : std::nullopt;
  }

 private:
  struct Tokens {
    Ids ids, labels;             // labels only if the row has them
    Mask completion, assistant;  // empty: no such mask
  };

  static bool at(const Mask& mask, std::size_t i) { return mask.empty() || (i < mask.size() && mask[i] != 0); }

  void truncate(Ids& ids) const {
    const auto length = static_cast<std::size_t>(*options_.max_length);
    if (ids.size() <= length) return;
    if (options_.truncation_mode == "keep_end") ids.erase(ids.begin(), ids.end() - static_cast<std::ptrdiff_t>(length));
    ids.resize(length);
  }

  Ids encode(std::string_view text) const { return codec_.encode(text, options_.add_special_tokens.value_or(true)); }

  Tokens tokenize(const Row& row) const {
    for (const std::string& name : {options_.tokens_field_name, std::string("input_ids")}) {
      if (row.values.contains(name)) return read_ids(row, name);
    }
    Tokens tokens;
    if (row.values.contains("prompt")) {
      tokens = prompt_and_completion(row);
    } else if (const Json* messages = row.values.find("messages"); messages && !messages->is_null()) {
      require<FormatError>(is_conversation(*messages), "[", row.place(),
                           "] \"messages\" must be a list of objects with a role and a content; got ",
                           messages->type_name(), messages->is_array() && messages->size() == 0 ? " that is empty" : "",
                           ".");
      const bool masks = options_.assistant_only_loss || !options_.train_on_inputs;
      auto chat = codec_.encode_chat(*messages, row, {.masks = masks});
      tokens = {.ids = std::move(chat.ids), .assistant = std::move(chat.assistant_masks)};
    } else {
      tokens.ids = encode(codec_.with_eos(text_of(row, options_.dataset_text_field)));
    }
    const bool is_missing = !tokens.assistant.empty() &&
                            std::find(tokens.assistant.begin(), tokens.assistant.end(), 1) == tokens.assistant.end();
    require<FormatError>(!is_missing, "[", row.place(),
                         "] assistant_only_loss is on (or train_on_inputs off), and no token of the conversation is "
                         "the assistant's. The chat "
                         "template must mark them with {% generation %}.");
    return tokens;
  }

  Tokens prompt_and_completion(const Row& row) const {
    const Json& prompt = field_of(row, "prompt");
    const Json& completion = field_of(row, "completion");
    Tokens tokens;
    Ids prompt_ids;
    if (is_conversation(prompt)) {
      require<FormatError>(is_conversation(completion), "[", row.place(),
                           "] where \"prompt\" is a list of messages, \"completion\" must be one; got ",
                           completion.type_name(), ".");
      prompt_ids = codec_.encode_chat(prompt, row, {.add_generation_prompt = true}).ids;
      auto chat = codec_.encode_chat(joined(prompt, completion), row, {.masks = options_.assistant_only_loss});
      tokens = {.ids = std::move(chat.ids), .assistant = std::move(chat.assistant_masks)};
    } else {
      const std::string& text = text_of(row, "prompt");
      prompt_ids = encode(text);
      tokens.ids = encode(text + codec_.with_eos(text_of(row, "completion")));
    }
    tokens.completion.assign(tokens.ids.size(), 1);
    std::fill_n(tokens.completion.begin(), common_prefix(prompt_ids, tokens.ids), 0);
    return tokens;
  }

  Ids read_numbers(const Row& row, const std::string& name, std::size_t size) const {
    Ids out = integers_of(row, name);
    require<FormatError>(size == 0 || out.size() == size, "[", row.place(), "] \"", name, "\" has ", out.size(),
                         " values; there are ", size, " ids.");
    return out;
  }

  Tokens read_ids(const Row& row, const std::string& name) const {
    Tokens tokens{.ids = read_numbers(row, name, 0)};
    const std::size_t size = tokens.ids.size();
    if (row.values.contains("labels")) tokens.labels = read_numbers(row, "labels", size);
    const auto read_mask = [&](const std::string& mask) {
      if (!row.values.contains(mask)) return Mask{};
      const Ids values = read_numbers(row, mask, size);
      return Mask(values.begin(), values.end());
    };
    tokens.completion = read_mask("completion_mask");
    tokens.assistant = read_mask("assistant_masks");
    return tokens;
  }

  TextCodec codec_;
  SftOptions options_;
};

}  // namespace

Transform make_sft_transform(const AutoTokenizer& tokenizer, const SftOptions& options) {
  return Sft(tokenizer, options);
}

}  // namespace easydel::data

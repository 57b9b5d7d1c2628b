// Rows for supervised fine-tuning, as trl's SFTTrainer prepares them: text, messages, prompt and completion, or ids.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "easydel/data/rows/example.h"
#include "easydel/data/sources/text_codec.h"

namespace easydel::data {

struct SftOptions {
  CodecOptions codec;
  std::string dataset_text_field = "text";
  std::string tokens_field_name = "tokens";    // rows of ids: this field, or input_ids
  std::optional<int64_t> max_length;           // none: no truncation, as when rows are packed
  std::string truncation_mode = "keep_start";  // or keep_end
  bool completion_only_loss = true;            // of rows with prompt and completion, or with a completion_mask
  bool assistant_only_loss = false;            // of conversations; the chat template must have {% generation %}
  bool train_on_inputs = true;  // false: only the assistant's messages have a loss; needs {% generation %} too
  std::optional<bool> add_special_tokens;  // to texts; none: the tokenizer's default
};

// Rows without labels after truncation are skipped. FormatError with the row's location and its fields.
Transform make_sft_transform(const AutoTokenizer& tokenizer, const SftOptions& options = {});

}  // namespace easydel::data

// Rows with a prompt, a chosen and a rejected answer, as trl's DPO, ORPO and reward trainers prepare them. Each is a
// text or a list of messages; without a prompt it is the common prefix of both answers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "easydel/data/rows/example.h"
#include "easydel/data/sources/text_codec.h"

namespace easydel::data {

struct PreferenceOptions {
  CodecOptions codec;
  std::optional<int64_t> max_length;
  std::string truncation_mode = "keep_start";  // or keep_end; for DPO, where collate_preference truncates
};

// prompt_ids, chosen_ids, rejected_ids. Texts get an end-of-sequence token if they lack one. Rows whose prompt fills
// max_length are skipped, unless the end is kept.
Transform make_dpo_transform(const AutoTokenizer& tokenizer, const PreferenceOptions& options = {});

// chosen_input_ids, chosen_attention_mask, chosen_labels, the same for rejected, prompt_input_ids and
// prompt_attention_mask; for ORPO and CPO. Answers are truncated to fit max_length.
Transform make_orpo_transform(const AutoTokenizer& tokenizer, const PreferenceOptions& options = {});

// prompt_ids, completion_ids and the number label: 1 for a row whose "label" is true, else 0; for KTO and BCO. Rows
// whose prompt fills max_length are skipped, unless the end is kept.
Transform make_unpaired_transform(const AutoTokenizer& tokenizer, const PreferenceOptions& options = {});

// prompt_ids, and the row itself, for trainers that generate the answers. Of a prompt that is longer than max_length
// the part that truncation_mode names stays.
Transform make_prompt_transform(const AutoTokenizer& tokenizer, const PreferenceOptions& options = {});

// chosen_ids and rejected_ids, prompts included, and margin if the row has one. Rows longer than max_length are
// skipped.
Transform make_reward_transform(const AutoTokenizer& tokenizer, const PreferenceOptions& options = {});

}  // namespace easydel::data

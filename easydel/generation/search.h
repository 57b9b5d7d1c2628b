// The two loops behind generate: row by row, and beams.
#pragma once

#include <algorithm>
#include <chrono>

#include "easydel/generation/decode_step.h"
#include "easydel/generation/generate.h"

namespace easydel {

// What both loops need, made by generate.
struct Search {
  const BaseModule& module;
  const GenerateOptions& options;
  const GenerationConfig& config;  // resolved: defaults, max_length with the prompt
  at::Tensor input_ids;            // [rows, prompt]: each prompt as often as it has rows or beams
  DecodeStep& step;
  LogitsProcessorList processors;
  LogitsProcessorList warpers;                // what only sampling uses; in beam search the processors hold these, too
  std::vector<StoppingCriteriaPtr> criteria;  // but for end tokens
  std::vector<int64_t> streams;               // of each row; of each prompt for beams
  int64_t pad_token_id = 0;
  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();

  // Whether all rows must end now, regardless of their content. All ranks get rank 0's answer.
  std::optional<FinishReason> ended() const;
};

// Continuations of a prompt that a step of beam search looks at, so that enough go on when the best of them end.
inline int64_t beam_candidates(const GenerationConfig& config) {
  return std::max<int64_t>(2, 1 + static_cast<int64_t>(config.eos_token_id.size())) * config.beams();
}

GenerateOutput sample_rows(Search& search);
GenerateOutput search_beams(Search& search);

}  // namespace easydel

// Sequences of tokens from a model with a language modelling head: greedy, sampling, beam search.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <stop_token>
#include <string_view>
#include <vector>

#include "easydel/core/random.h"
#include "easydel/generation/generation_config.h"
#include "easydel/generation/inputs.h"
#include "easydel/generation/logits_processor.h"
#include "easydel/generation/stopping.h"

namespace easydel {

enum class FinishReason : uint8_t { Stop, Length, Time, Cancelled };  // Stop: an end token, a stop string, a criterion
std::string_view finish_reason_name(FinishReason reason);             // "stop", "length", "time", "cancelled"

// The new token of every row after each step; -1 for a row that had ended before.
using Streamer = std::function<void(std::span<const int64_t> tokens)>;

struct GenerateOptions {
  GenerationConfig generation_config = {};  // what is not set comes from the model's own, then from the defaults
  RandomKey prng_key = RandomKey(0);
  bool trace = true;                      // whether a step may be captured and replayed; the tokens do not depend on it
  std::optional<bool> fused_decode = {};  // whether a layer may be one operation on the CPU; see ModelInputs
  LogitsProcessorList logits_processor = {};  // in addition to those of the config
  std::vector<StoppingCriteriaPtr> stopping_criteria = {};
  Streamer streamer = {};           // not with beams
  DecodeFunction decode = {};       // for stop_strings
  std::stop_token stop_token = {};  // asks to end; looked at after each step
  PromptInputs inputs = {};
  std::vector<int64_t> streams = {};  // names the random numbers of each prompt; absent: 0, 1, …
};

// Rows come prompt by prompt, num_return_sequences of each. Without beams row i * n + j is draw j of prompt i.
struct GenerateOutput {
  at::Tensor sequences;                      // [rows, tokens] int64 with the prompt, padded on the right
  std::vector<int64_t> lengths;              // new tokens of each row, its end token counted
  std::vector<FinishReason> finish_reasons;  // of each row
  std::vector<at::Tensor> scores;            // of each step [rows or beams, V], with output_scores
  std::vector<at::Tensor> logits;            // of each step [rows or beams, V], with output_logits
  at::Tensor log_probs;                      // [rows, new tokens] float32, 0 behind a row's end; with output_log_probs
  at::Tensor sequences_scores;               // [rows] float32, of beams
  at::Tensor beam_indices;                   // [rows, new tokens] int64: the beam that each token came from, or -1
  int64_t prompt_length = 0;
};

// From prompts [B, T], padded on the left. Runs without gradients. On a mesh all ranks call it with the same arguments
// and get the same output. ConfigError, ShapeError and NotSupportedError say what cannot be done before anything is
// computed.
GenerateOutput generate(const BaseModule& module, const at::Tensor& input_ids, const GenerateOptions& options = {});

// generation_config.json of the model, or what its config has of the same; what options of generate do not set.
GenerationConfig generation_config(const BaseModule& model);
void set_generation_config(BaseModule& model, const GenerationConfig& config);

}  // namespace easydel

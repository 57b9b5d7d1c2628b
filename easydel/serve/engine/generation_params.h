// What a GenerationConfig, of generate and of generation_config.json, means to the engine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "easydel/serve/engine/request.h"

namespace easydel {
class BaseModule;
struct GenerationConfig;
}  // namespace easydel

namespace easydel::serve {

// Temperature 0 where it does not sample, and transformers' defaults where it says nothing: top_k 50. Lengths are those
// of the answer: max_length counts the prompt, and so is left out.
SamplingParams to_sampling_params(const GenerationConfig& config);

// The first of its keys that the engine has nothing for, such as num_beams or no_repeat_ngram_size; none: all that it
// says is in to_sampling_params.
std::optional<std::string> unsupported_key(const GenerationConfig& config);

// The tokens of its vocabulary that end an answer of this model; none where it does not generate.
std::vector<int32_t> end_tokens_of(const BaseModule& model);

}  // namespace easydel::serve

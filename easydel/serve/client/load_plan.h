// The requests of a load test and when each is sent, as vLLM's `bench serve` makes them. No torch here.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "easydel/core/json/json.h"

namespace easydel {
class Tokenizer;
}

namespace easydel::serve {

// A prompt is ids, a text or messages: the first of them that is not empty.
struct LoadRequest {
  std::vector<int32_t> ids;
  std::string text;
  Json messages;              // null: none
  int64_t prompt_tokens = 0;  // 0: unknown until the server counts them
  int64_t max_tokens = 0;
};

struct RandomPrompts {
  int64_t count = 1000;
  int64_t input_len = 1024;
  int64_t output_len = 128;
  int64_t prefix_len = 0;    // tokens at the beginning that all prompts share, besides input_len
  double range_ratio = 0.0;  // lengths are uniform in [len * (1 - ratio), len * (1 + ratio)]
  int64_t vocab_size = 0;
  uint64_t seed = 0;
};

// Uniform ids below vocab_size, different for each prompt.
std::vector<LoadRequest> random_requests(const RandomPrompts& how);

// Lines of JSON with "prompt" (a text or ids) or "messages", and perhaps "output_tokens" or "max_tokens". Begins again
// when there are fewer lines than requests. FormatError names the line.
std::vector<LoadRequest> file_requests(const std::filesystem::path& path, int64_t count, int64_t output_len);

// Ids become text, for endpoints that take no ids; prompt_tokens is what the text encodes to.
void decode_prompts(std::vector<LoadRequest>& requests, const Tokenizer& tokenizer);

// Text becomes ids. ConfigError for messages.
void encode_prompts(std::vector<LoadRequest>& requests, const Tokenizer& tokenizer);

struct Arrivals {
  double rate = std::numeric_limits<double>::infinity();  // requests per second; infinity: all at once
  double burstiness = 1.0;  // shape of the gamma distribution of the gaps: 1 is a Poisson process, more is more even
  uint64_t seed = 0;
};

// Seconds after the start at which each request is sent, scaled so that the last one comes at count / rate.
std::vector<double> arrival_times(std::size_t count, const Arrivals& how);

}  // namespace easydel::serve

#include "easydel/serve/engine/request.h"

#include <cmath>

#include "easydel/core/error.h"

namespace easydel::serve {

std::string_view finish_name(Finish finish) {
  switch (finish) {
    case Finish::Stop: return "stop";
    case Finish::Length: return "length";
    case Finish::Cancelled: return "cancelled";
    case Finish::Error: return "error";
  }
  return "";
}

void SamplingParams::validate(int64_t vocab_size) const {
  const auto check = [](bool holds, const char* name, const char* rule, const auto& given) {
    require<ConfigError>(holds, "[sampling] ", name, " must be ", rule, "; got ", given, ".");
  };
  const auto is_share = [](double x) { return x > 0 && x <= 1; };  // false for NaN
  check(std::isfinite(temperature) && temperature >= 0, "temperature", "0 or more", temperature);
  check(top_k >= 0, "top_k", "0 or more", top_k);
  check(is_share(top_p), "top_p", "in (0, 1]", top_p);
  check(min_p >= 0 && min_p <= 1, "min_p", "in [0, 1]", min_p);
  check(is_share(typical_p), "typical_p", "in (0, 1]", typical_p);
  check(std::isfinite(repetition_penalty) && repetition_penalty > 0, "repetition_penalty", "positive",
        repetition_penalty);
  check(presence_penalty >= -2 && presence_penalty <= 2, "presence_penalty", "in [-2, 2]", presence_penalty);
  check(frequency_penalty >= -2 && frequency_penalty <= 2, "frequency_penalty", "in [-2, 2]", frequency_penalty);
  check(!max_tokens || *max_tokens > 0, "max_tokens", "positive", max_tokens.value_or(0));
  check(min_tokens >= 0, "min_tokens", "0 or more", min_tokens);
  require<ConfigError>(!max_tokens || min_tokens <= *max_tokens, "[sampling] min_tokens must be at most max_tokens, ",
                       max_tokens.value_or(0), "; got ", min_tokens, ".");
  check(!logprobs || (*logprobs >= 0 && *logprobs <= vocab_size), "logprobs", "from 0 to the size of the vocabulary",
        logprobs.value_or(0));
  check(!prompt_logprobs || (*prompt_logprobs >= 0 && *prompt_logprobs <= vocab_size), "prompt_logprobs",
        "from 0 to the size of the vocabulary", prompt_logprobs.value_or(0));
  for (const auto& [token, bias] : logit_bias) {
    require<ConfigError>(token >= 0 && token < vocab_size, "[sampling] logit_bias must name token ids below ",
                         vocab_size, "; got ", token, ".");
    require<ConfigError>(!std::isnan(bias), "[sampling] logit_bias of token ", token, " is not a number.");
  }
  for (const int32_t token : stop_token_ids) {
    require<ConfigError>(token >= 0 && token < vocab_size, "[sampling] stop_token_ids must be below ", vocab_size,
                         "; got ", token, ".");
  }
  for (const std::string& text : stop)
    require<ConfigError>(!text.empty(), "[sampling] a stop string must not be empty.");
}

}  // namespace easydel::serve

// The sampling parameters of a request, under OpenAI's names and vLLM's.
#pragma once

#include <optional>
#include <string>

#include "easydel/serve/engine/request.h"
#include "easydel/serve/openai/context.h"
#include "easydel/serve/openai/fields.h"

namespace easydel::serve {

// temperature, top_p, top_k, min_p, typical_p, the penalties, logit_bias, seed, min_tokens, stop, stop_token_ids,
// include_stop_str_in_output, ignore_eos, skip_special_tokens, prompt_logprobs. Not max_tokens, logprobs and grammars,
// which have other names in each API.
SamplingParams read_sampling(Fields& fields, const ServiceContext& context);

// response_format (text, json_object, json_schema, structural_tag), structured_outputs and guided_json, guided_regex,
// guided_choice, guided_grammar: at most one of them.
std::optional<GrammarSpec> read_grammar(Fields& fields);
// A response_format, or the text.format of /v1/responses: {"type": "json_schema", …} where the schema lies in the
// format itself (`flat`) or under "json_schema".
std::optional<GrammarSpec> read_format(const Json& format, const std::string& path, bool flat = false);

// The same grammar after the end of the model's reasoning, for prompts that end inside of it.
GrammarSpec after_reasoning(const GrammarSpec& grammar, const MessageFormat& format);

// How many tokens may follow a prompt. 400 when none fits, or when fewer than asked for do.
int64_t token_limit(const ServiceContext& context, int64_t prompt_tokens, std::optional<int64_t> asked,
                    const std::string& field);

}  // namespace easydel::serve

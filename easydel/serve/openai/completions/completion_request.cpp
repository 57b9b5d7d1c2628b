#include "easydel/serve/openai/completions/completion_request.h"

#include <algorithm>
#include <array>

#include "easydel/serve/openai/sampling_fields.h"

namespace easydel::serve {
namespace {

constexpr int64_t kCompletionTokens = 16;  // OpenAI's default of max_tokens

constexpr std::array<RefusedField, 9> kCompletionRefused{{
    {"suffix", "the model does not fill in between"},
    {"prompt_embeds", "prompts are text or token ids"},
    {"logits_processors", "requests cannot bring code"},
    {"bad_words", "use logit_bias"},
    {"allowed_token_ids", "use logit_bias or a grammar"},
    {"cache_salt", "the prefix cache is shared"},
    {"kv_transfer_params", "the cache is not transferred"},
    {"vllm_xargs", "it belongs to another engine"},
    {"guided_decoding_backend", "there is one backend"},
}};

CompletionPrompt completion_of_text(const std::string& text, bool add_special_tokens, const ServiceContext& context) {
  return {.tokens = context.tokenizer->encode_ids(text, add_special_tokens), .text = text};
}

CompletionPrompt completion_of_ids(const Json& ids, const ServiceContext& context) {
  const int64_t vocab_size = context.engine->info().vocab_size;
  CompletionPrompt prompt;
  for (const Json& id : ids.as_array()) {
    require_field(id.is_int() && id.as_int() >= 0 && id.as_int() < vocab_size, "prompt",
                  "prompt must have token ids below ", vocab_size, "; got ", id.dump(), ".");
    prompt.tokens.push_back(static_cast<int32_t>(id.as_int()));
  }
  return prompt;
}

// A string, strings, ids or lists of ids.
std::vector<CompletionPrompt> completion_prompts(const Json& given, bool add_special_tokens,
                                                 const ServiceContext& context) {
  const auto of = [&](const Json& one) {
    if (one.is_string()) return completion_of_text(one.as_string(), add_special_tokens, context);
    require_field(one.is_array(), "prompt", "prompt must be a string, strings, token ids or lists of them; got ",
                  one.type_name(), ".");
    return completion_of_ids(one, context);
  };
  const bool is_list = given.is_array() && given.size() > 0 && !given.at(0).is_int();
  if (!is_list) return {of(given)};
  std::vector<CompletionPrompt> prompts;
  for (const Json& one : given.as_array()) prompts.push_back(of(one));
  return prompts;
}

void completion_limits(CompletionRequest& request, const ServiceContext& context, std::optional<int64_t> asked) {
  for (CompletionPrompt& prompt : request.prompts) {
    require_field(!prompt.tokens.empty(), "prompt", "prompt must have at least one token.");
    truncate_prompt(prompt.tokens, request.settings, context);
    const auto length = static_cast<int64_t>(prompt.tokens.size());
    if (request.echo_alone) {
      const int64_t most = context.engine->info().max_model_len;
      require_field(length <= most, "prompt", "This model's maximum context length is ", most,
                    " tokens. However, your prompt has ", length, " tokens.");
      prompt.max_tokens = 1;
      continue;
    }
    const int64_t limit = token_limit(context, length, asked, "max_tokens");
    prompt.max_tokens = asked ? limit : std::min(limit, kCompletionTokens);
    require_field(request.sampling.min_tokens <= prompt.max_tokens, "min_tokens", "min_tokens must be at most ",
                  prompt.max_tokens, ", the most that the answer may have; got ", request.sampling.min_tokens, ".");
  }
}

}  // namespace

CompletionRequest read_completion_request(const ServiceContext& context, const Json& body) {
  Fields fields(body);
  CompletionRequest request{.settings = read_answer_settings(fields, context, "cmpl-")};
  request.sampling = read_sampling(fields, context);
  request.returns_prompt_logprobs = request.sampling.prompt_logprobs.has_value();
  require_field(!request.returns_prompt_logprobs || !request.settings.stream, "prompt_logprobs",
                "prompt_logprobs is not supported with stream=true.");
  request.sampling.grammar = read_grammar(fields);
  request.sampling.logprobs = fields.integer("logprobs", 0, context.options.max_logprobs);
  request.echo = fields.boolean("echo", false);
  if (request.echo && request.sampling.logprobs) {
    request.sampling.prompt_logprobs =
        std::max(request.sampling.prompt_logprobs.value_or(0), *request.sampling.logprobs);
  }
  const auto asked = fields.integer("max_tokens", 0);
  request.echo_alone = request.echo && asked == 0;
  require_field(asked != 0 || request.echo, "max_tokens", "max_tokens must be at least 1 without echo; got 0.");
  if (request.echo_alone) request.sampling.min_tokens = 0;
  const bool add_special_tokens = fields.boolean("add_special_tokens", true);
  const Json* prompt = fields.find("prompt");
  fields.refuse_rest(kCompletionRefused);
  require_field(prompt != nullptr, "prompt", "prompt is required.");

  const std::size_t count = prompt->is_array() && prompt->size() > 0 && !prompt->at(0).is_int() ? prompt->size() : 1;
  require_field(static_cast<int64_t>(count) * request.settings.n <= context.options.max_choices, "prompt",
                "a request may have at most ", context.options.max_choices, " answers; got ", count, " prompts with n ",
                request.settings.n, ".");
  request.prompts = completion_prompts(*prompt, add_special_tokens, context);
  completion_limits(request, context, asked);
  if (request.echo) {
    for (CompletionPrompt& one : request.prompts) {
      const bool is_cut = request.settings.truncate_prompt_tokens.has_value();
      if (one.text.empty() || is_cut)
        one.text = context.tokenizer->decode(one.tokens, request.sampling.skip_special_tokens);
    }
  }
  return request;
}

}  // namespace easydel::serve

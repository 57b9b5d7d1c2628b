#include "easydel/serve/openai/completions/chat_request.h"

#include <array>

#include "easydel/serve/openai/sampling_fields.h"

namespace easydel::serve {
namespace {

constexpr std::array<RefusedField, 17> kChatRefused{{
    {"audio", "only text is generated"},
    {"function_call", "it is deprecated; use tool_choice"},
    {"functions", "it is deprecated; use tools"},
    {"prediction", "predicted output is not used"},
    {"web_search_options", "the server does not search"},
    {"logits_processors", "requests cannot bring code"},
    {"mm_processor_kwargs", "images are processed as the model's files specify"},
    {"bad_words", "use logit_bias"},
    {"allowed_token_ids", "use logit_bias or a grammar"},
    {"cache_salt", "the prefix cache is shared"},
    {"kv_transfer_params", "the cache is not transferred"},
    {"vllm_xargs", "it belongs to another engine"},
    {"guided_decoding_backend", "there is one backend"},
    {"guided_whitespace_pattern", "whitespace is determined by the grammar"},
    {"media_io_kwargs", "images are decoded in one way"},
    {"thinking_token_budget", "reasoning has no budget of its own; use max_completion_tokens"},
    {"suffix", "it belongs to completions of code models"},
}};

void chat_check_neutral(Fields& fields) {
  for (const std::string& modality : fields.strings("modalities")) {
    require_field(modality == "text", "modalities", "modalities must be [\"text\"]; got \"", modality, "\".");
  }
  const auto verbosity = fields.string("verbosity");
  require_field(!verbosity || *verbosity == "medium", "verbosity",
                "verbosity must be medium, the only one that the model has; got \"", verbosity.value_or(""), "\".");
}

ChatPromptInput chat_prompt_input(Fields& fields, const ServiceContext& context) {
  const Json* messages = fields.find("messages");
  require_field(messages != nullptr, "messages", "messages is required.");
  ChatPromptInput input = read_chat_prompt(fields, *messages, context);
  if (const Json* documents = fields.array("documents")) input.documents = *documents;
  input.reasoning_effort = fields.string("reasoning_effort");
  return input;
}

std::optional<int64_t> chat_logprobs_count(Fields& fields, const ServiceContext& context) {
  const bool wanted = fields.boolean("logprobs", false);
  const auto count = fields.integer("top_logprobs", 0, context.options.max_logprobs);
  require_field(!count || *count == 0 || wanted, "top_logprobs", "top_logprobs needs logprobs=true.");
  return wanted ? std::optional(count.value_or(0)) : std::nullopt;
}

void chat_set_limit(Fields& fields, const ServiceContext& context, int64_t prompt_tokens, SamplingParams& sampling) {
  const auto old_name = fields.integer("max_tokens", 1);
  const auto new_name = fields.integer("max_completion_tokens", 1);
  sampling.max_tokens = token_limit(context, prompt_tokens, new_name ? new_name : old_name, "max_completion_tokens");
  require_field(sampling.min_tokens <= *sampling.max_tokens, "min_tokens", "min_tokens must be at most ",
                *sampling.max_tokens, ", the most that the answer may have; got ", sampling.min_tokens, ".");
}

}  // namespace

ChatRequest read_chat_request(const ServiceContext& context, const Json& body) {
  Fields fields(body);
  ChatRequest chat{.settings = read_answer_settings(fields, context, "chatcmpl-")};
  chat_check_neutral(fields);
  ChatPromptInput input = chat_prompt_input(fields, context);
  SamplingParams sampling = read_sampling(fields, context);
  require_field(!sampling.prompt_logprobs || !chat.settings.stream, "prompt_logprobs",
                "prompt_logprobs is not supported with stream=true.");
  sampling.logprobs = chat_logprobs_count(fields, context);
  chat.include_reasoning = fields.boolean("include_reasoning", true);
  const bool echo = fields.boolean("echo", false);
  // Everything is checked before the template and the tokenizer do their work.
  Fields later = fields;
  later.accept({"max_tokens", "max_completion_tokens", "response_format", "structured_outputs", "guided_json",
                "guided_regex", "guided_choice", "guided_grammar"});
  later.refuse_rest(kChatRefused);

  chat.prompt = render_chat(context, input);
  const Json& last = input.messages.as_array().back();
  chat.role = input.add_generation_prompt ? context.options.response_role : last.at("role").as_string();
  if (echo && last.at("role") == Json(chat.role) && last.at("content").is_string())
    chat.echo = last.at("content").as_string();
  truncate_prompt(chat.prompt.tokens, chat.settings, context);
  sampling.grammar = answer_grammar(read_grammar(fields), input.tools, chat.prompt.format);
  chat.tools = std::move(input.tools);
  chat_set_limit(fields, context, static_cast<int64_t>(chat.prompt.tokens.size()), sampling);
  if (chat.prompt.format.needs_special_tokens()) sampling.skip_special_tokens = false;
  chat.request = {.prompt = chat.prompt.tokens,
                  .sampling = std::move(sampling),
                  .priority = chat.settings.priority,
                  .adapter = chat.settings.model.adapter,
                  .kind = RequestKind::Generate,
                  .images = chat.prompt.images};
  return chat;
}

}  // namespace easydel::serve

// /tokenize and /detokenize, in vLLM's shapes.
#include "easydel/serve/openai/chat_prompt.h"
#include "easydel/serve/openai/routes.h"

namespace easydel::serve {
namespace {

std::vector<int32_t> tokenize_chat(const ServiceContext& context, Fields& fields, const Json& messages) {
  return render_chat(context, read_chat_prompt(fields, messages, context)).tokens;
}

void answer_tokenize(ApiCall& call) {
  const ServiceContext& context = *call.service;
  const Json body = parse_body(call.request.body);
  Fields fields(body);
  choose_model(context, fields);
  const bool with_strings = fields.boolean("return_token_strs", false);
  const auto prompt = fields.string("prompt");
  const Json* messages = fields.find("messages");
  require_field(prompt.has_value() != (messages != nullptr), "prompt", "either prompt or messages is required.");
  const std::vector<int32_t> tokens =
      messages ? tokenize_chat(context, fields, *messages)
               : context.tokenizer->encode_ids(*prompt, fields.boolean("add_special_tokens", true));
  fields.refuse_rest();
  Json strings;
  if (with_strings) {
    strings = Json::array();
    for (const int32_t id : tokens) strings.push_back(context.tokenizer->id_to_token(id).value_or(""));
  }
  call.reply.send(json_response(Json::object({{"count", tokens.size()},
                                              {"max_model_len", context.engine->info().max_model_len},
                                              {"tokens", Json(tokens)},
                                              {"token_strs", std::move(strings)}})));
}

void answer_detokenize(ApiCall& call) {
  const ServiceContext& context = *call.service;
  const Json body = parse_body(call.request.body);
  Fields fields(body);
  choose_model(context, fields);
  require_field(fields.find("tokens") != nullptr, "tokens", "tokens is required.");
  const std::vector<int32_t> tokens = fields.tokens("tokens");
  fields.refuse_rest();
  for (const int32_t id : tokens) {
    require_field(id < context.tokenizer->vocab_size(), "tokens", "tokens must be below ",
                  context.tokenizer->vocab_size(), "; got ", id, ".");
  }
  const std::string text = context.tokenizer->decode(tokens, /*skip_special_tokens=*/false);
  call.reply.send(json_response(Json::object({{"prompt", text}})));
}

}  // namespace

void add_token_routes(Service& service) {
  service.add({.method = "POST", .path = "/tokenize", .handler = answer_tokenize});
  service.add({.method = "POST", .path = "/detokenize", .handler = answer_detokenize});
}

}  // namespace easydel::serve

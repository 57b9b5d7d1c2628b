// /v1/models, and adapters that come and go.
#include <algorithm>

#include "easydel/serve/openai/context.h"
#include "easydel/serve/openai/routes.h"

namespace easydel::serve {
namespace {

Json model_card(const ServiceContext& context, const std::string& id, bool is_adapter) {
  const std::string& base = context.options.served_model_names.front();
  const std::string& root = context.options.model_root;
  return Json::object({{"id", id},
                       {"object", "model"},
                       {"created", context.created},
                       {"owned_by", "easydel"},
                       {"root", is_adapter || root.empty() ? Json(id) : Json(root)},
                       {"parent", is_adapter ? Json(base) : Json()},
                       {"max_model_len", context.engine->info().max_model_len}});
}

Json model_cards(const ServiceContext& context) {
  Json cards = Json::array();
  for (const std::string& name : context.options.served_model_names) cards.push_back(model_card(context, name, false));
  for (const std::string& name : context.engine->adapters()) cards.push_back(model_card(context, name, true));
  return cards;
}

void models_list(ApiCall& call) {
  call.reply.send(json_response(Json::object({{"object", "list"}, {"data", model_cards(*call.service)}})));
}

void models_one(ApiCall& call) {
  const Json cards = model_cards(*call.service);
  for (const Json& card : cards.as_array()) {
    if (card.at("id") == Json(call.tail)) return call.reply.send(json_response(card));
  }
  throw ApiError(404, concat("The model `", call.tail, "` does not exist."), "model", "model_not_found");
}

std::string models_required(Fields& fields, std::string_view name) {
  auto value = fields.string(name);
  require_field(value && !value->empty(), name, name, " is required.");
  return *value;
}

void models_say(const ApiCall& call, std::string text) {
  call.reply.send({.status = 200, .content_type = "text/plain; charset=utf-8", .headers = {}, .body = std::move(text)});
}

void models_load_adapter(ApiCall& call) {
  const Json body = parse_body(call.request.body);
  Fields fields(body);
  const std::string name = models_required(fields, "lora_name");
  const std::string path = models_required(fields, "lora_path");
  fields.refuse_rest();
  const auto& served = call.service->options.served_model_names;
  require_field(std::find(served.begin(), served.end(), name) == served.end(), "lora_name",
                "lora_name must not be the name of the model; got \"", name, "\".");
  call.service->engine->load_adapter(name, path);
  models_say(call, concat("Success: LoRA adapter '", name, "' added successfully."));
}

void models_unload_adapter(ApiCall& call) {
  const Json body = parse_body(call.request.body);
  Fields fields(body);
  const std::string name = models_required(fields, "lora_name");
  fields.accept({"lora_int_id"});  // vLLM's clients send it along; the name is enough
  fields.refuse_rest();
  const auto loaded = call.service->engine->adapters();
  if (std::find(loaded.begin(), loaded.end(), name) == loaded.end()) {
    throw ApiError(404, concat("The lora adapter '", name, "' cannot be found."), "lora_name", "model_not_found");
  }
  call.service->engine->unload_adapter(name);
  models_say(call, concat("Success: LoRA adapter '", name, "' removed successfully."));
}

}  // namespace

void add_model_routes(Service& service) {
  service.add({.method = "GET", .path = "/v1/models", .handler = models_list});
  service.add({.method = "GET", .path = "/v1/models/*", .handler = models_one});
}

void add_adapter_routes(Service& service) {
  service.add({.method = "POST", .path = "/v1/load_lora_adapter", .handler = models_load_adapter});
  service.add({.method = "POST", .path = "/v1/unload_lora_adapter", .handler = models_unload_adapter});
}

}  // namespace easydel::serve

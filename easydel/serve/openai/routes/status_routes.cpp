// /health, /version, /metrics, /dashboard/data and the pages. All answer on the I/O thread, also when workers are busy.
#include "easydel/serve/openai/context.h"
#include "easydel/serve/openai/routes.h"
#include "easydel/serve/page/page.h"

namespace easydel::serve {
namespace {

void status_health(ApiCall& call) {
  const bool healthy = call.service->engine->stats().healthy;
  if (healthy) return call.reply.send({.status = 200, .content_type = "text/plain", .headers = {}, .body = {}});
  throw ApiError(503, "the engine has failed and accepts no more requests.", "", "engine_dead");
}

void status_version(ApiCall& call) {
  call.reply.send(json_response(Json::object({{"version", call.service->options.version}})));
}

void status_metrics(ApiCall& call) {
  const ServiceContext& context = *call.service;
  call.reply.send({.status = 200,
                   .content_type = "text/plain; version=0.0.4; charset=utf-8",
                   .headers = {},
                   .body = context.metrics.prometheus(context.engine->stats(), context.engine->info(),
                                                      context.options.served_model_names.front())});
}

void status_dashboard_data(ApiCall& call) {
  ServiceContext& context = *call.service;
  const auto now = Metrics::Clock::now();
  Json data = context.metrics.dashboard(context.engine->stats(), context.engine->info(),
                                        context.options.served_model_names.front(), now);
  data["version"] = context.options.version;
  Json requests = Json::array();
  for (const RequestSummary& one : context.engine->summaries()) {
    requests.push_back(Json::object({{"id", std::to_string(one.id)},
                                     {"state", one.is_running ? "running" : "waiting"},
                                     {"prompt_tokens", one.prompt_tokens},
                                     {"output_tokens", one.output_tokens},
                                     {"age_s", std::chrono::duration<double>(now - one.arrived).count()}}));
  }
  data["requests"] = std::move(requests);
  HttpResponse response = json_response(data);
  response.headers.emplace_back("Cache-Control", "no-store");
  call.reply.send(std::move(response));
}

Route status_page(std::string path, std::string_view name) {
  const auto send = [name](ApiCall& call) {
    // A page asks no other host for anything, and browsers hold it to that.
    call.reply.send({.status = 200,
                     .content_type = "text/html; charset=utf-8",
                     .headers = {{"Content-Security-Policy",
                                  "default-src 'self' 'unsafe-inline' data: blob:; frame-ancestors 'none'"},
                                 {"X-Content-Type-Options", "nosniff"}},
                     .body = std::string(page(name))});
  };
  return {.method = "GET", .path = std::move(path), .handler = send, .is_open = true, .on_worker = false};
}

Route status_route(std::string path, ApiHandler handler) {
  return {.method = "GET", .path = std::move(path), .handler = std::move(handler), .is_open = true, .on_worker = false};
}

}  // namespace

void add_status_routes(Service& service) {
  service.add(status_route("/health", status_health));
  service.add(status_route("/version", status_version));
  service.add(status_route("/metrics", status_metrics));
  service.add(status_route("/dashboard/data", status_dashboard_data));
}

void add_page_routes(Service& service) {
  service.add(status_page("/", "chat"));
  service.add(status_page("/dashboard", "dashboard"));
}

}  // namespace easydel::serve

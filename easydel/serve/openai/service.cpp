#include "easydel/serve/openai/service.h"

#include <algorithm>

#include "easydel/serve/openai/context.h"
#include "easydel/serve/openai/pooling/pooling.h"
#include "easydel/serve/openai/responses/responses.h"
#include "easydel/serve/openai/routes.h"

namespace easydel::serve {
namespace {

// Takes as long for a wrong key as for the right one, whichever byte differs.
bool service_equal_keys(std::string_view given, std::string_view key) {
  std::size_t difference = given.size() ^ key.size();
  for (std::size_t i = 0; i < given.size(); ++i) {
    const char other = key.empty() ? '\0' : key[i % key.size()];
    difference |= static_cast<std::size_t>(static_cast<unsigned char>(given[i]) ^ static_cast<unsigned char>(other));
  }
  return difference == 0;
}

void service_check_key(const HttpRequest& request, const std::vector<std::string>& keys) {
  if (keys.empty()) return;
  constexpr std::string_view kScheme = "bearer ";
  std::string_view given = request.header("authorization");
  const bool is_bearer = given.size() >= kScheme.size() &&
                         std::equal(kScheme.begin(), kScheme.end(), given.begin(),
                                    [](char a, char b) { return a == (b >= 'A' && b <= 'Z' ? b - 'A' + 'a' : b); });
  if (!is_bearer) {
    throw ApiError(401, "You didn't provide an API key. Send it in an Authorization header: Bearer YOUR_KEY.");
  }
  given.remove_prefix(kScheme.size());
  bool is_known = false;
  for (const std::string& key : keys) is_known |= service_equal_keys(given, key);
  if (!is_known) throw ApiError(401, "Incorrect API key provided.", "", "invalid_api_key");
}

void service_answer_error(const ApiCall& call, const std::exception_ptr& error) {
  const ServiceContext& context = *call.service;
  Json body;
  try {
    body = parse_body(call.request.body);
  } catch (const Error&) {  // then no field can be named
  }
  const HttpResponse response = error_response(error, context.options.retry_after, &body);
  call.service->metrics.http(response.status);
  call.reply.send(response);
}

void service_run(const ApiHandler& handler, ApiCall& call) {
  try {
    handler(call);
  } catch (...) {
    service_answer_error(call, std::current_exception());
  }
}

}  // namespace

Service::Service(std::shared_ptr<Engine> engine, AutoTokenizer tokenizer, ServiceOptions options,
                 std::shared_ptr<const VisionProcessor> vision)
    : context_(std::make_shared<ServiceContext>(std::move(engine), std::move(tokenizer), std::move(options),
                                                std::move(vision))) {
  add_chat_routes(*this);
  add_completion_routes(*this);
  add_response_routes(*this);
  add_pooling_routes(*this);
  add_speech_routes(*this);
  add_model_routes(*this);
  if (context_->options.enable_adapters) add_adapter_routes(*this);
  add_token_routes(*this);
  add_status_routes(*this);
  if (context_->options.enable_page) add_page_routes(*this);
}

Service::~Service() { context_->workers.stop(); }

void Service::add(Route route) { routes_.push_back(std::move(route)); }

const Route* Service::find(const HttpRequest& request, std::string& tail, std::string& methods) const {
  const std::string method = request.method == "HEAD" ? "GET" : request.method;
  for (const Route& route : routes_) {
    const bool is_open_ended = route.path.ends_with("/*");
    const std::string_view stem = std::string_view(route.path).substr(0, route.path.size() - (is_open_ended ? 1 : 0));
    const bool fits = is_open_ended ? request.path.starts_with(stem) && request.path.size() > stem.size()
                                    : request.path == route.path;
    if (!fits) continue;
    if (is_open_ended) tail = request.path.substr(stem.size());
    if (route.method == method) return &route;
    methods += (methods.empty() ? "" : ", ") + route.method;
  }
  return nullptr;
}

void Service::handle(HttpRequest request, HttpReply reply) {
  ApiCall call{.service = context_,
               .request = std::move(request),
               .reply = std::move(reply),
               .arrived = std::chrono::steady_clock::now(),
               .tail = {}};
  try {
    std::string methods;
    const Route* route = find(call.request, call.tail, methods);
    if (!route && !methods.empty()) {
      HttpResponse response =
          error_response(ApiError(405, concat("Not allowed to ", call.request.method, " on ", call.request.path, ".")));
      response.headers.emplace_back("Allow", methods);
      context_->metrics.http(405);
      return call.reply.send(std::move(response));
    }
    if (!route) {
      throw ApiError(404, concat("Invalid URL (", call.request.method, " ", call.request.path, ")"), "", "unknown_url");
    }
    if (!route->is_open) service_check_key(call.request, context_->options.api_keys);
    if (!route->on_worker) return service_run(route->handler, call);
    // The reply stays here for the refusal; what the worker gets is a copy.
    const bool is_taken = context_->workers.try_post([handler = route->handler, call]() mutable {
      if (call.reply.is_open()) service_run(handler, call);
    });
    if (!is_taken) throw QueueFullError("too many requests are waiting. Try again later.");
  } catch (...) {
    service_answer_error(call, std::current_exception());
  }
}

}  // namespace easydel::serve

// The OpenAI-compatible service: requests of the HTTP server in, requests to the engine out. No torch here.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "easydel/serve/engine/engine.h"
#include "easydel/serve/http/http_server.h"
#include "easydel/tokenizers/auto_tokenizer.h"

namespace easydel {
class VisionProcessor;  // processors/vision_processor.h
}

namespace easydel::serve {

struct ServiceOptions {
  std::vector<std::string> served_model_names{"model"};  // the first one is in answers that name none
  std::string model_root;                                // where the model came from, for /v1/models
  std::vector<std::string> api_keys;                     // empty: none is required
  std::string chat_template;                             // its source; empty: the model's
  bool trust_request_chat_template = false;              // whether a request may bring its own
  std::string allowed_local_media_path;                  // images of requests may be files below it; empty: none
  // Hosts from which http and https URLs of images are fetched; "*": any with a public address. Empty: none are.
  std::vector<std::string> allowed_media_domains;
  std::string tool_parser = "auto";       // a name of tool_formats(), "auto" (by the template) or "" (none)
  std::string reasoning_parser = "auto";  // the same of reasoning_formats()
  SamplingParams default_sampling;        // of the model's generation_config; what a request leaves out
  int64_t max_logprobs = 20;
  int64_t max_choices = 1024;  // of a request: prompts times n
  int64_t max_queue = 4096;    // requests that wait for a worker; more are answered 429. 0: any number
  int workers = 2;             // threads that parse, render and tokenize
  std::chrono::seconds retry_after{1};
  std::chrono::milliseconds request_timeout{0};  // of an answer from its arrival; 0: none
  bool enable_page = true;                       // / and /dashboard
  bool enable_adapters = true;                   // /v1/load_lora_adapter and /v1/unload_lora_adapter
  std::string response_role = "assistant";
  std::string version;
};

struct ServiceContext;

// One request on its way to an answer.
struct ApiCall {
  std::shared_ptr<ServiceContext> service;
  HttpRequest request;
  HttpReply reply;
  std::chrono::steady_clock::time_point arrived;
  std::string tail;  // what the "*" at the end of a route's path stands for
};

// May throw: see error_response of api_error.h for the status of each error.
using ApiHandler = std::function<void(ApiCall&)>;

struct Route {
  std::string method, path;  // a path may end in "/*"
  ApiHandler handler;
  bool is_open = false;   // no API key needed
  bool on_worker = true;  // otherwise it answers on the I/O thread and must be quick
};

class Service {
 public:
  // ConfigError for options that are not possible: no model name, an unknown parser, a template that does not parse.
  // Without a processor of images requests are text alone.
  Service(std::shared_ptr<Engine> engine, AutoTokenizer tokenizer, ServiceOptions options = {},
          std::shared_ptr<const VisionProcessor> vision = nullptr);
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  // Any thread, usually the HTTP server's; does not block.
  void handle(HttpRequest request, HttpReply reply);

  // Before the first request.
  void add(Route route);

 private:
  const Route* find(const HttpRequest& request, std::string& tail, std::string& methods) const;

  std::shared_ptr<ServiceContext> context_;
  std::vector<Route> routes_;
};

}  // namespace easydel::serve

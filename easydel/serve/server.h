// A model behind HTTP: the engine, the OpenAI-compatible service and the HTTP server put together.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "easydel/serve/engine/engine.h"
#include "easydel/serve/http/http_server.h"
#include "easydel/serve/openai/service.h"
#include "easydel/tokenizers/auto_tokenizer.h"

namespace easydel {
class BaseModule;
class WhisperFeatureExtractor;
}  // namespace easydel

namespace easydel::serve {

struct ServerOptions {
  HttpOptions http;
  ServiceOptions service;
  EngineOptions engine;
  std::vector<std::pair<std::string, std::string>> adapters;  // name and directory, loaded at the start
  int64_t data_parallel_size = 1;                             // engines that share the requests
  std::chrono::milliseconds shutdown_timeout{30000};          // for what is running when the server is asked to stop
};

// The image preprocessing of a model's requests, from the files next to it. Null for a model that accepts only text,
// and, with a warning, where there are none.
std::shared_ptr<const VisionProcessor> load_vision(const BaseModule& model, const std::string& name_or_path,
                                                   const HubOptions& hub = {});

// The same for the recordings of a speech model. ConfigError where there are no files for it.
std::shared_ptr<const WhisperFeatureExtractor> load_feature_extractor(const BaseModule& model,
                                                                      const std::string& name_or_path,
                                                                      const HubOptions& hub = {});

// What requests sample by unless they say otherwise: the model's generation_config.json.
SamplingParams default_sampling(const BaseModule& model);

class Server {
 public:
  // Listens when it returns. `model` serves all replicas; each has a cache of its own.
  // `vision` prepares the images of requests, `hearing` their recordings; null where the model does not accept images.
  Server(const std::shared_ptr<BaseModule>& model, const AutoTokenizer& tokenizer, ServerOptions options,
         std::shared_ptr<const VisionProcessor> vision = nullptr,
         std::shared_ptr<const WhisperFeatureExtractor> hearing = nullptr);
  ~Server();

  std::string address() const;  // "http://127.0.0.1:8000"
  bool is_healthy() const;
  // Takes no more requests and waits for those that run, at most shutdown_timeout; whether all have ended. What has not
  // is cancelled. Called once.
  bool stop();

 private:
  void close();

  ServerOptions options_;
  std::shared_ptr<Engine> engine_;
  std::unique_ptr<Service> service_;
  std::unique_ptr<HttpServer> http_;  // null after stop
  std::string address_;
};

// Serves until SIGINT or SIGTERM; the process must not have other threads that these signals could reach, so call
// block_stop_signals before the first is made. False when the engine failed.
void block_stop_signals();
bool serve_until_stopped(Server& server);

}  // namespace easydel::serve

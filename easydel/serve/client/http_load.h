// Sends the requests of a load test to an OpenAI-compatible server: all streams on one thread, with libcurl.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "easydel/serve/client/load_run.h"

namespace easydel::serve {

struct HttpLoadOptions {
  std::string base_url;                      // "http://127.0.0.1:8000"
  std::string endpoint = "/v1/completions";  // or one that ends in /chat/completions
  std::string model;
  std::string api_key;  // empty: none is sent
  double temperature = 0.0;
  bool ignore_eos = false;

  bool is_chat() const { return endpoint.ends_with("/chat/completions"); }
};

// What is sent: streaming, with the usage at the end. ConfigError: ids to a chat, or messages to completions.
Json load_body(const LoadRequest& request, const HttpLoadOptions& options);

// Takes an event of the answer into the record; false for the last one, "[DONE]". `now`: since the start of the run.
bool take_load_event(std::string_view data, double now, LoadRecord& record);

class HttpLoad : public LoadTarget {
 public:
  explicit HttpLoad(HttpLoadOptions options);  // NotSupportedError in a build without libcurl
  ~HttpLoad() override;

  void start(const LoadRequest& request, LoadRecord& record, double epoch) override;
  int64_t wait(double seconds) override;

 private:
  struct Connections;
  std::unique_ptr<Connections> connections_;
};

}  // namespace easydel::serve

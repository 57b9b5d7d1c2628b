// HTTP requests with libcurl. A build without libcurl has the same interface, and each call says what to install.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "easydel/core/error.h"

namespace easydel {

// The request got no response: no connection, a dropped one, a server that stopped responding.
class HttpError : public IoError {
 public:
  HttpError(const std::string& message, bool sent, bool known_host = true)
      : IoError(message), sent_(sent), known_host_(known_host) {}
  bool sent() const { return sent_; }              // false: the server cannot have acted on the request
  bool known_host() const { return known_host_; }  // false: its name could not be resolved

 private:
  bool sent_, known_host_;
};

struct HttpResponse {
  int status = 0;
  std::string url;  // of the last hop
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;

  bool ok() const { return status >= 200 && status < 300; }
  std::string header(std::string_view name) const;  // case does not matter; "" when absent
};

// Bytes of a file as the body of a request; read again when the request is sent again.
struct HttpFileBody {
  int fd = -1;
  int64_t offset = 0;
  int64_t size = 0;
};

struct HttpRequest {
  std::string method = "GET";
  std::string url;
  std::vector<std::string> headers;  // "Name: value"
  std::string body;
  HttpFileBody file;                      // sent instead of `body` when it has a descriptor
  bool idempotent = true;                 // false: never sent again when the server may have acted on it
  std::chrono::seconds silence_limit{0};  // 0: the client's
  std::function<void(int64_t)> on_sent;   // bytes of the body sent so far
  // Receives the body of a 2xx response in chunks; its status and headers are complete. Exceptions propagate out of
  // send.
  std::function<void(const HttpResponse&, std::string_view)> on_body;
};

struct HttpClientOptions {
  std::string user_agent;
  std::string token;  // sent to `trusted_url`'s scheme, host and port, and nowhere else
  std::string trusted_url;
  std::chrono::seconds silence_limit{10};  // to connect, and between two bytes
  std::chrono::seconds time_limit{0};      // of a request with its redirects; 0: none
  int64_t max_body_bytes = 256 << 20;      // of a response kept in memory; FormatError beyond it
  // Asked before each request that a redirect leads to, and before the first; throws to stop there.
  std::function<void(const std::string& url)> check_url;
  // Whether each address that a name resolves to is checked before connecting: HttpError for those of this machine and
  // of private networks. Proxies are not used then.
  bool public_addresses_only = false;
  std::stop_token stop;
};

// One reused connection; for one thread at a time. Follows redirects of GET and HEAD, and of any method with 307 and
// 308.
class HttpClient {
 public:
  explicit HttpClient(HttpClientOptions options);  // NotSupportedError in a build without libcurl
  ~HttpClient();
  HttpClient(HttpClient&&) noexcept;
  HttpClient& operator=(HttpClient&&) noexcept;

  HttpResponse send(const HttpRequest& request);  // whatever the status is; HttpError, Cancelled
  const HttpClientOptions& options() const;

 private:
  struct Connection;
  std::unique_ptr<Connection> connection_;
};

}  // namespace easydel

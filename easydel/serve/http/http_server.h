// An HTTP/1.1 server on one I/O thread: requests in, answers or streams of events out. No torch, no Boost here.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace easydel::serve {

struct HttpOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 8000;           // 0: any free one
  std::string tls_cert, tls_key;  // PEM files; empty: plain HTTP
  int64_t max_body_bytes = 16 << 20;
  int64_t max_header_bytes = 16 << 10;
  int64_t max_connections = 4096;                  // more are answered 503 and closed
  std::chrono::milliseconds read_timeout{30000};   // of one request, header and body
  std::chrono::milliseconds idle_timeout{75000};   // between two requests of a connection
  std::chrono::milliseconds write_timeout{60000};  // of a reader that takes nothing
  int64_t max_buffered_bytes = 1 << 20;   // of a stream that the client does not read; then the connection is closed
  std::vector<std::string> cors_origins;  // "*": any; empty: no CORS headers
};

struct HttpRequest {
  std::string method;  // GET, POST, …
  std::string path;    // decoded, without the query
  std::string query;
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case
  std::string body;
  std::string remote;  // address and port of the client

  std::string_view header(std::string_view lower_case_name) const;  // empty when absent
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
};

// The answer to one request; copies mean the same one. Any thread may call it. What is sent after the client has left,
// or after the end, is dropped. If the last copy goes without an answer, the client gets a 500.
class HttpReply {
 public:
  class Impl;
  explicit HttpReply(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

  void send(HttpResponse response) const;
  // A stream in chunks: begin, write …, end. write returns false when the client is gone or reads too slowly.
  void begin(HttpResponse head) const;
  bool write(std::string_view bytes) const;
  void end() const;
  bool is_open() const;
  // Called once on the I/O thread when the client leaves before the end; at once if it already has.
  void on_close(std::function<void()> callback) const;

 private:
  std::shared_ptr<Impl> impl_;
};

// Runs on the I/O thread: must not block.
using HttpHandler = std::function<void(HttpRequest, HttpReply)>;

class HttpServer {
 public:
  // IoError when the address cannot be bound, ConfigError when the certificate cannot be used.
  HttpServer(HttpOptions options, HttpHandler handler);
  ~HttpServer();  // closes all connections
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  uint16_t port() const;  // the one that it listens on
  int64_t connections() const;
  // No new connections and requests; waits until those in progress have ended, at most this long.
  void stop(std::chrono::milliseconds grace);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace easydel::serve

// Bytes to requests, a piece at a time. No sockets and, here, no Boost.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "easydel/serve/http/http_server.h"

namespace easydel::serve {

struct HttpLimits {
  int64_t header_bytes = 16 << 10;
  int64_t body_bytes = 16 << 20;
  int64_t headers = 256;
};

// One request; the next one needs a parser of its own.
class HttpParser {
 public:
  explicit HttpParser(const HttpLimits& limits);
  ~HttpParser();
  HttpParser(const HttpParser&) = delete;
  HttpParser& operator=(const HttpParser&) = delete;

  // Takes what it can and returns how many bytes that were. The rest belongs to the next request when is_done(), and
  // must be given again, with more behind it, otherwise. Nothing more is taken after an error.
  std::size_t put(std::string_view bytes);

  bool has_header() const;
  bool is_done() const;
  int error_status() const;  // 0: none; else what to answer: 400, 413, 417, 431, 501, 505
  const std::string& error_message() const;

  HttpRequest& request();  // whole when is_done(); `remote` is not set
  bool is_http_1_0() const;
  bool keep_alive() const;        // once the header is there
  bool expects_continue() const;  // the client waits for 100 before it sends the body

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace easydel::serve

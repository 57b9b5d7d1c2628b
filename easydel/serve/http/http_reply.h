// What is behind an HttpReply: the connection in the server, a recorder in tests.
#pragma once

#include "easydel/serve/http/http_server.h"

namespace easydel::serve {

// Destroyed with the last copy of the reply. See HttpReply for the rules of each function.
class HttpReply::Impl {
 public:
  Impl() = default;
  virtual ~Impl() = default;
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  virtual void send(HttpResponse response) = 0;
  virtual void begin(HttpResponse head) = 0;
  virtual bool write(std::string_view bytes) = 0;
  virtual void end() = 0;
  virtual bool is_open() const = 0;
  virtual void on_close(std::function<void()> callback) = 0;
};

}  // namespace easydel::serve

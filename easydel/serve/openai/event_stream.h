// Server-sent events over a reply. The head is sent with the first event, so that an error before it has its status.
#pragma once

#include <string_view>
#include <utility>

#include "easydel/core/json/json.h"
#include "easydel/serve/http/http_server.h"

namespace easydel::serve {

// Not thread-safe by itself: the caller keeps events in order.
class EventStream {
 public:
  explicit EventStream(HttpReply reply) : reply_(std::move(reply)) {}

  // False when the client is gone or reads too slowly.
  bool data(const Json& value);                          // data: {…}
  bool text(std::string_view json);                      // the same, already written
  bool event(std::string_view name, const Json& value);  // event: name, data: {…}
  bool done();                                           // data: [DONE], then end()
  void end();
  bool has_begun() const { return has_begun_; }

 private:
  bool write(std::string_view bytes);

  HttpReply reply_;
  bool has_begun_ = false;
};

}  // namespace easydel::serve

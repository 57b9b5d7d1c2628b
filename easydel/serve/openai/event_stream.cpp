#include "easydel/serve/openai/event_stream.h"

#include "easydel/core/error.h"
#include "easydel/core/json/strict_json.h"

namespace easydel::serve {

bool EventStream::write(std::string_view bytes) {
  if (!has_begun_) {
    has_begun_ = true;
    reply_.begin({.status = 200,
                  .content_type = "text/event-stream; charset=utf-8",
                  .headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}},
                  .body = {}});
  }
  return reply_.write(bytes);
}

bool EventStream::data(const Json& value) { return text(dump_strict(value)); }

bool EventStream::text(std::string_view json) {
  std::string bytes("data: ");
  bytes += json;
  bytes += "\n\n";
  return write(bytes);
}

bool EventStream::event(std::string_view name, const Json& value) {
  return write(concat("event: ", name, "\ndata: ", dump_strict(value), "\n\n"));
}

bool EventStream::done() {
  const bool taken = write("data: [DONE]\n\n");
  end();
  return taken;
}

void EventStream::end() {
  if (!has_begun_) write("");
  reply_.end();
}

}  // namespace easydel::serve

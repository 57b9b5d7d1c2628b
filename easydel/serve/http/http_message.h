// What HTTP messages consist of: decoded targets, heads of responses, bodies of errors. No sockets.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "easydel/serve/http/http_server.h"

namespace easydel::serve {

// An error in the shape of OpenAI's API: {"error": {"message", "type", "param", "code"}}.
HttpResponse http_error(int status, std::string_view message);

std::string_view http_reason(int status);  // "Not Found"; "Unknown" for a status that has no name

bool http_equal(std::string_view a, std::string_view b);  // whatever the case of ASCII letters
std::string http_lower(std::string_view text);

// Sets path and query from the target of a request line. False when it is none: no path, a bad percent escape, a NUL or
// another control character, or bytes that are not UTF-8.
bool http_read_target(std::string_view target, HttpRequest& request);

// How the answers to one request are written.
struct HttpFraming {
  bool http_1_0 = false;
  bool is_head = false;      // no body, whatever the response has
  bool keep_alive = true;    // what the client wants
  std::string allow_origin;  // of Access-Control-Allow-Origin; empty: none
};

enum class HttpBodyKind { Whole, Stream };

struct HttpHead {
  std::string bytes;        // the status line and the headers
  bool keep_alive = true;   // whether another request may follow the answer
  bool has_body = true;     // false for HEAD, 204 and 304
  bool is_chunked = false;  // a stream; without chunks it goes on until the connection is closed
};

// Content-Length, Transfer-Encoding, Date and Connection are the server's; `Connection: close` in the response is
// honoured. Line breaks in values become spaces.
HttpHead http_write_head(const HttpResponse& response, const HttpFraming& framing, HttpBodyKind kind);

// One chunk of a stream; nothing for no bytes, which would end it.
void http_append_chunk(std::string& out, std::string_view bytes);

// The value of Access-Control-Allow-Origin for a request; empty when there is none to send.
std::string http_allow_origin(const std::vector<std::string>& allowed, const HttpRequest& request);
// The answer to a preflight request; nullopt when the request is none, or CORS is off.
std::optional<HttpResponse> http_preflight(const std::vector<std::string>& allowed, const HttpRequest& request);

}  // namespace easydel::serve

#include <algorithm>
#include <string>
#include <vector>

#include "easydel/core/text/utf8.h"
#include "easydel/serve/http/form_data.h"
#include "easydel/serve/http/http_message.h"
#include "easydel/serve/http/http_parser.h"
#include "fuzz.h"

using namespace easydel;
using namespace easydel::serve;

namespace {

constexpr HttpLimits kLimits{.header_bytes = 1024, .body_bytes = 4096, .headers = 20};

// All requests in the bytes, as one line each, and the status of the error at the end. The bytes come in pieces, as
// they do from a socket; what is left of one is given again with the next.
std::vector<std::string> read_requests(std::string_view bytes, std::size_t piece) {
  std::vector<std::string> found;
  auto parser = std::make_unique<HttpParser>(kLimits);
  std::string in;
  while (!bytes.empty()) {
    in += bytes.substr(0, piece);
    bytes.remove_prefix(std::min(piece, bytes.size()));
    while (!in.empty()) {
      const std::size_t taken = parser->put(in);
      if (taken > in.size()) fuzz::found("more was taken than given");
      in.erase(0, taken);
      if (parser->error_status() != 0) {
        found.push_back(std::to_string(parser->error_status()));
        return found;
      }
      if (!parser->is_done()) break;
      const HttpRequest& request = parser->request();
      std::string line = concat(request.method, " ", request.path, " ", request.query, " ", parser->keep_alive(),
                                parser->is_http_1_0(), parser->expects_continue(), " ", request.body);
      for (const auto& [name, value] : request.headers) line += concat("\n", name, "=", value);
      if (static_cast<int64_t>(request.body.size()) > kLimits.body_bytes) fuzz::found("the body has no limit");
      if (static_cast<int64_t>(request.headers.size()) > kLimits.headers) fuzz::found("the headers have no limit");
      if (request.path.find('\0') != std::string::npos || invalid_utf8(request.path) != std::string::npos) {
        fuzz::found("a path that is not text");
      }
      if (auto answer = http_preflight({"*"}, request)) {
        HttpFraming framing;
        framing.allow_origin = http_allow_origin({"*", "http://a"}, request);
        const std::string head = http_write_head(*answer, framing, HttpBodyKind::Whole).bytes;
        if (head.find("\r\n\r\n") != head.size() - 4) fuzz::found("a header ends the head");
      }
      fuzz::refuse_or([&] {
        for (const FormPart& part : read_form_data(request)) {
          if (part.name.empty()) fuzz::found("a part without a name");
          fuzz::touch(part.value);
        }
      });
      found.push_back(std::move(line));
      parser = std::make_unique<HttpParser>(kLimits);
    }
    if (static_cast<int64_t>(in.size()) > kLimits.header_bytes) fuzz::found("what waits for more has no limit");
  }
  return found;
}

}  // namespace

// The first byte is the size of the pieces. Errors may be noticed later in pieces, but what is read must be the same.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  return fuzz::refuse_or([&] {
    const std::string_view bytes = fuzz::as_text(data + 1, size - 1);
    const auto whole = read_requests(bytes, bytes.size() + 1);
    const auto pieces = read_requests(bytes, static_cast<std::size_t>(data[0]) % 64 + 1);
    const auto is_request = [](const std::string& line) { return line.size() > 3; };
    const auto count = [&](const auto& lines) { return std::count_if(lines.begin(), lines.end(), is_request); };
    if (count(whole) != count(pieces)) fuzz::found("pieces make other requests");
    for (int64_t i = 0; i < count(whole); ++i) {
      if (whole[static_cast<std::size_t>(i)] != pieces[static_cast<std::size_t>(i)])
        fuzz::found("a piece changes a request");
    }
  });
}

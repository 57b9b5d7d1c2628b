// The HTTP server of a build without Boost: it says what is missing.
#include "easydel/core/error.h"
#include "easydel/serve/http/http_server.h"

namespace easydel::serve {

class HttpServer::Impl {};

HttpServer::HttpServer(HttpOptions, HttpHandler) {
  fail<NotSupportedError>("[serve] this build has no HTTP server: install libboost-dev and build again.");
}
HttpServer::~HttpServer() = default;
uint16_t HttpServer::port() const { return 0; }
int64_t HttpServer::connections() const { return 0; }
void HttpServer::stop(std::chrono::milliseconds) {}

}  // namespace easydel::serve

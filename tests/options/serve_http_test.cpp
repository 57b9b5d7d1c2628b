// What the options of the HTTP server do, seen by a client on a socket.
#include <condition_variable>
#include <future>
#include <mutex>

#include "easydel/serve/http/http_server.h"
#include "tests/serve/http_client.h"
#include "tests/support/probe.h"

namespace easydel::serve {
namespace {

using namespace std::chrono_literals;
using easydel::testing_support::is_refused;
using testing_http::any_port;
using testing_http::Client;
using testing_http::echo;

constexpr const char* kProbeGet = "GET / HTTP/1.1\r\nHost: t\r\n\r\n";

HttpOptions http_with(const std::function<void(HttpOptions&)>& change) {
  HttpOptions options = any_port();
  change(options);
  return options;
}

int status_of(HttpServer& server, const std::string& request) { return Client(server.port()).ask(request).status; }

std::string body_of(std::size_t size) {
  return "POST / HTTP/1.1\r\nHost: t\r\nContent-Length: " + std::to_string(size) + "\r\n\r\n" + std::string(size, 'a');
}

// A client that reads nothing, and whether it was closed while so many bytes were written.
bool closes_a_slow_reader(const HttpOptions& options, std::size_t bytes) {
  std::promise<HttpReply> arrived;
  HttpServer server(options, [&](HttpRequest, HttpReply reply) { arrived.set_value(std::move(reply)); });
  Client client(server.port(), 4096);
  client.send(kProbeGet);
  const HttpReply reply = arrived.get_future().get();
  const auto closed = std::make_shared<std::promise<void>>();
  reply.on_close([closed] { closed->set_value(); });
  reply.begin({});
  const std::string piece(10'000, 'x');
  for (std::size_t written = 0; written < bytes; written += piece.size()) {
    if (!reply.write(piece)) break;
  }
  return closed->get_future().wait_for(20s) == std::future_status::ready;
}

PROBE(HttpOptions, host) {
  HttpServer here(any_port(), echo), elsewhere(http_with([](HttpOptions& o) { o.host = "127.0.0.2"; }), echo);
  EXPECT_TRUE(Client(here.port()).is_connected());
  EXPECT_FALSE(Client(elsewhere.port()).is_connected());
}
PROBE(HttpOptions, port) {
  HttpServer server(any_port(), echo);
  EXPECT_NE(server.port(), 0);
  EXPECT_TRUE(is_refused("port " + std::to_string(server.port()),
                         [&] { HttpServer again(http_with([&](HttpOptions& o) { o.port = server.port(); }), echo); }));
}
PROBE(HttpOptions, tls_cert) {
  EXPECT_TRUE(
      is_refused("tls_cert", [] { HttpServer(http_with([](HttpOptions& o) { o.tls_cert = "none.pem"; }), echo); }));
}
PROBE(HttpOptions, tls_key) {
  EXPECT_TRUE(
      is_refused("tls_key", [] { HttpServer(http_with([](HttpOptions& o) { o.tls_key = "none.pem"; }), echo); }));
}
PROBE(HttpOptions, max_body_bytes) {
  HttpServer server(http_with([](HttpOptions& o) { o.max_body_bytes = 10; }), echo);
  EXPECT_EQ(status_of(server, body_of(10)), 200);
  EXPECT_EQ(status_of(server, body_of(11)), 413);
}
PROBE(HttpOptions, max_header_bytes) {
  const std::string request = "GET / HTTP/1.1\r\nHost: t\r\nA: " + std::string(400, 'a') + "\r\n\r\n";
  HttpServer large(any_port(), echo), small(http_with([](HttpOptions& o) { o.max_header_bytes = 200; }), echo);
  EXPECT_EQ(status_of(large, request), 200);
  EXPECT_EQ(status_of(small, request), 431);
}
PROBE(HttpOptions, max_connections) {
  HttpServer server(http_with([](HttpOptions& o) { o.max_connections = 1; }), echo);
  Client first(server.port());
  EXPECT_EQ(first.ask(kProbeGet).status, 200);
  EXPECT_EQ(status_of(server, kProbeGet), 503);
}
PROBE(HttpOptions, read_timeout) {
  HttpServer server(http_with([](HttpOptions& o) { o.read_timeout = 100ms; }), echo);
  EXPECT_EQ(status_of(server, "GET / HTTP/1.1\r\nHost"), 408);
}
PROBE(HttpOptions, idle_timeout) {
  HttpServer server(http_with([](HttpOptions& o) { o.idle_timeout = 100ms; }), echo);
  Client client(server.port());
  EXPECT_EQ(client.ask(kProbeGet).status, 200);
  EXPECT_EQ(client.read_all(), "");  // the server closes; the client would wait for 20 s
  EXPECT_FALSE(client.timed_out());
}
PROBE(HttpOptions, write_timeout) {
  EXPECT_TRUE(closes_a_slow_reader(http_with([](HttpOptions& o) {
                                     o.write_timeout = 200ms;
                                     o.max_buffered_bytes = 1 << 30;
                                   }),
                                   64 << 20));
}
PROBE(HttpOptions, max_buffered_bytes) {
  EXPECT_TRUE(closes_a_slow_reader(http_with([](HttpOptions& o) {
                                     o.write_timeout = 1h;
                                     o.max_buffered_bytes = 100'000;
                                   }),
                                   100 << 20));
}
PROBE(HttpOptions, cors_origins) {
  const std::string request = "GET / HTTP/1.1\r\nHost: t\r\nOrigin: http://a\r\n\r\n";
  const auto allows = [&](HttpServer& server) {
    return Client(server.port()).ask(request).head.find("Access-Control-Allow-Origin: http://a") != std::string::npos;
  };
  HttpServer closed(any_port(), echo), open(http_with([](HttpOptions& o) { o.cors_origins = {"http://a"}; }), echo);
  EXPECT_FALSE(allows(closed));
  EXPECT_TRUE(allows(open));
}

}  // namespace
}  // namespace easydel::serve

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "easydel/core/json/json.h"
#include "easydel/serve/http/http_server.h"
#include "http_client.h"

namespace easydel::serve {
namespace {

using namespace std::chrono_literals;
using namespace std::string_literals;
using testing::HasSubstr;
using testing_http::any_port;
using testing_http::Client;
using testing_http::echo;
using testing_http::get;

// The last answer of a connection: the status, and an error in OpenAI's shape.
int refusal(const std::string& answer) {
  const std::size_t end = answer.find("\r\n\r\n");
  if (end == std::string::npos) return 0;
  EXPECT_THAT(answer.substr(0, end), HasSubstr("Connection: close"));
  const Json error = Json::parse(answer.substr(end + 4)).at("error");
  EXPECT_FALSE(error.at("message").as_string().empty());
  EXPECT_FALSE(error.at("type").as_string().empty());
  EXPECT_TRUE(error.at("param").is_null());
  EXPECT_TRUE(error.at("code").is_null());
  return std::atoi(answer.c_str() + 9);
}

TEST(HttpHostile, RefusesWhatIsMalformedAndGoesOn) {
  HttpServer server(any_port(), echo);
  const std::string host = "Host: t\r\n";
  const std::vector<std::pair<std::string, int>> cases = {
      {"garbage\r\n\r\n", 400},
      {"\0\0\0\0\r\n\r\n"s, 400},
      {"\xff\xfe\r\n\r\n", 400},
      {"GET\r\n\r\n", 400},
      {"GET /a%2 HTTP/1.1\r\n" + host + "\r\n", 400},
      {"GET /a%zz HTTP/1.1\r\n" + host + "\r\n", 400},
      {"GET /a%00 HTTP/1.1\r\n" + host + "\r\n", 400},
      {"GET /a%0a HTTP/1.1\r\n" + host + "\r\n", 400},
      {"GET /%ff%fe HTTP/1.1\r\n" + host + "\r\n", 400},
      {"GET /\xc3( HTTP/1.1\r\n" + host + "\r\n", 400},
      {"GET relative HTTP/1.1\r\n" + host + "\r\n", 400},
      {"CONNECT a:1 HTTP/1.1\r\n" + host + "\r\n", 400},
      {"GET / HTTP/1.1\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\n" + host + host + "\r\n", 400},
      {"GET / HTTP/1.1\r\n" + host + "no colon\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\n" + host + "a: \0b\r\n\r\n"s, 400},
      {"GET / HTTP/1.1\r\n" + host + "Content-Length: x\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\n" + host + "Content-Length: -1\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\n" + host + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nab", 400},
      {"GET / HTTP/1.1\r\n" + host + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n0\r\n\r\n", 400},
      {"GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\n" + host + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501},
      {"GET / HTTP/1.1\r\n" + host + "Transfer-Encoding: gzip\r\n\r\n", 501},
      {"GET / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\nxyz\r\n", 400},
      {"GET / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\nffffffffffffffffffff\r\n", 400},
      {"GET / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n0\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\n" + host + "Expect: miracles\r\n\r\n", 417},
      {"GET / HTTP/2.0\r\n" + host + "\r\n", 505},
      {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505},
  };
  for (const auto& [request, status] : cases) {
    Client client(server.port());
    ASSERT_TRUE(client.send(request));
    EXPECT_EQ(refusal(client.read_all()), status) << request;
    EXPECT_FALSE(client.timed_out()) << request;
  }
  EXPECT_EQ(Client(server.port()).ask(get("/still")).body, "GET /still [] ");
}

TEST(HttpHostile, HasLimits) {
  HttpOptions options = any_port();
  options.max_body_bytes = 1000;
  options.max_header_bytes = 2000;
  HttpServer server(options, echo);
  const std::string post = "POST / HTTP/1.1\r\nHost: t\r\n";
  std::string many = "GET / HTTP/1.1\r\nHost: t\r\n";
  for (int i = 0; i < 300; ++i) many += "a:\r\n";
  const std::vector<std::pair<std::string, int>> cases = {
      {post + "Content-Length: 1001\r\n\r\n", 413},  // before the body comes
      {post + "Content-Length: 18446744073709551615\r\n\r\n", 413},
      {post + "Expect: 100-continue\r\nContent-Length: 1001\r\n\r\n", 413},
      {post + "Transfer-Encoding: chunked\r\n\r\n3e9\r\n", 413},
      {post + "Transfer-Encoding: chunked\r\n\r\n1f4\r\n" + std::string(500, 'a') + "\r\n1f5\r\n", 413},
      {post + "Transfer-Encoding: chunked\r\n\r\n1;" + std::string(5000, 'x'), 431},
      {post + "Transfer-Encoding: chunked\r\n\r\n0\r\nA: " + std::string(5000, 'x'), 431},
      {"GET /" + std::string(3000, 'a'), 431},
      {post + "A: " + std::string(3000, 'a'), 431},
      {post + "A: " + std::string(1500, 'a') + "\r\nB: " + std::string(1500, 'a') + "\r\n\r\n", 431},
      {many + "\r\n", 431},
  };
  for (const auto& [request, status] : cases) {
    Client client(server.port());
    ASSERT_TRUE(client.send(request));
    EXPECT_EQ(refusal(client.read_all()), status) << request.substr(0, 200);
    EXPECT_FALSE(client.timed_out());
  }
  Client fits(server.port());
  EXPECT_EQ(fits.ask(post + "Content-Length: 1000\r\n\r\n" + std::string(1000, 'b')).status, 200);
}

TEST(HttpHostile, AnswersAClientThatGoesOnSendingAHugeBody) {
  HttpServer server(any_port(), echo);
  Client client(server.port());
  client.send("POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 100000000\r\n\r\n");
  client.send(std::string(8 << 20, 'a'));  // the answer must not be lost because of it
  EXPECT_EQ(client.read_answer().status, 413);
}

TEST(HttpHostile, CountsHeadersInAHeaderThatIsOtherwiseSmallEnough) {
  HttpServer server(any_port(), echo);
  std::string request = "GET / HTTP/1.1\r\nHost: t\r\n";
  for (int i = 0; i < 255; ++i) request += "a:\r\n";
  EXPECT_EQ(Client(server.port()).ask(request + "\r\n").status, 200);
  Client client(server.port());
  client.send(request + "a:\r\n\r\n");
  EXPECT_EQ(refusal(client.read_all()), 431);
}

TEST(HttpHostile, TimesOut) {
  HttpOptions options = any_port();
  options.read_timeout = 100ms;
  options.idle_timeout = 100ms;
  HttpServer server(options, echo);
  for (const std::string start : {"G", "POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 10\r\n\r\nhalf"}) {
    Client client(server.port());
    client.send(start);
    EXPECT_EQ(refusal(client.read_all()), 408);
  }
  Client silent(server.port());
  EXPECT_EQ(silent.read_all(), "");
  EXPECT_FALSE(silent.timed_out());
  Client idle(server.port());
  EXPECT_EQ(idle.ask(get("/")).status, 200);
  EXPECT_EQ(idle.read_all(), "");
  EXPECT_FALSE(idle.timed_out());
}

TEST(HttpHostile, RefusesConnectionsOverTheLimit) {
  HttpOptions options = any_port();
  options.max_connections = 2;
  HttpServer server(options, echo);
  Client first(server.port());
  EXPECT_EQ(first.ask(get("/")).status, 200);
  {
    Client second(server.port());
    EXPECT_EQ(second.ask(get("/")).status, 200);
    Client third(server.port());
    third.send(get("/"));
    EXPECT_EQ(refusal(third.read_all()), 503);
    EXPECT_EQ(server.connections(), 2);
    second.send("GET / HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n");
    second.read_all();
  }
  while (server.connections() > 1) std::this_thread::yield();  // until the server has seen it leave
  EXPECT_EQ(Client(server.port()).ask(get("/")).status, 200);
}

TEST(HttpHostile, TakesAHalfClosedConnectionForOneThatHasLeftUnlessItsAnswerIsThere) {
  HttpServer server(any_port(), echo);
  Client client(server.port());
  client.send(get("/a") + get("/b"));
  EXPECT_EQ(client.read_answer().body, "GET /a [] ");
  EXPECT_EQ(client.read_answer().body, "GET /b [] ");
  client.send("GET /");
  client.end_sending();
  EXPECT_EQ(client.read_all(), "");
  EXPECT_FALSE(client.timed_out());
}

}  // namespace
}  // namespace easydel::serve

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <future>
#include <mutex>
#include <thread>
#include <vector>

#include "easydel/core/error.h"
#include "easydel/serve/http/http_message.h"
#include "easydel/serve/http/http_server.h"
#include "easydel/serve/http/sse.h"
#include "http_client.h"

namespace easydel::serve {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
using testing_http::any_port;
using testing_http::Client;
using testing_http::echo;
using testing_http::get;

constexpr auto kLong = 20s;  // none of the tests takes it, unless it fails

HttpResponse event_stream() {
  HttpResponse head;
  head.content_type = kSseContentType;
  return head;
}

// Hands each reply to the test.
class Replies {
 public:
  HttpHandler handler() {
    return [this](HttpRequest, HttpReply reply) {
      const std::lock_guard lock(mutex_);
      replies_.push_back(std::move(reply));
      arrived_.notify_all();
    };
  }
  HttpReply next() {
    std::unique_lock lock(mutex_);
    if (!arrived_.wait_for(lock, kLong, [&] { return !replies_.empty(); })) throw Error("no request came");
    HttpReply reply = std::move(replies_.front());
    replies_.erase(replies_.begin());
    return reply;
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<HttpReply> replies_;
};

std::future<void> closed(const HttpReply& reply) {
  const auto promise = std::make_shared<std::promise<void>>();
  reply.on_close([promise] { promise->set_value(); });  // a second call would throw
  return promise->get_future();
}

TEST(HttpServer, AnswersOneRequestAfterAnotherOnAConnection) {
  HttpServer server(any_port(), echo);
  Client client(server.port());
  EXPECT_EQ(client.ask(get("/a%20b/%C3%A9?x=%20y")).body, "GET /a b/é [x=%20y] ");
  const auto answer = client.ask("POST /p HTTP/1.1\r\nhost: t\r\ncontent-length: 5\r\n\r\nhello");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body, "POST /p [] hello");
  EXPECT_THAT(answer.head, HasSubstr("Content-Type: text/plain\r\n"));
  EXPECT_THAT(answer.head, HasSubstr("Date: "));
  EXPECT_EQ(client.ask(get("http://proxied/x?y")).body, "GET /x [y] ");
  EXPECT_EQ(server.connections(), 1);
}

TEST(HttpServer, GivesHeadersInLowerCaseAndTheRemoteAddress) {
  HttpServer server(any_port(), [](const HttpRequest& request, const HttpReply& reply) {
    HttpResponse response;
    response.body =
        std::string(request.header("x-name")) + "|" + std::string(request.header("none")) + "|" + request.remote;
    reply.send(response);
  });
  Client client(server.port());
  EXPECT_THAT(client.ask("GET / HTTP/1.1\r\nHost: t\r\nX-NaMe:  Value \r\n\r\n").body, StartsWith("Value||127.0.0.1:"));
}

TEST(HttpServer, AnswersPipelinedRequestsInOrder) {
  HttpServer server(any_port(), [](const HttpRequest& request, const HttpReply& reply) {
    std::thread([=] { echo(request, reply); }).detach();
  });
  Client client(server.port());
  std::string all;
  for (int i = 0; i < 2000; ++i) all += get("/" + std::to_string(i));  // more than is read ahead
  std::thread sender([&] { client.send(all); });
  for (int i = 0; i < 2000; ++i) ASSERT_EQ(client.read_answer().body, "GET /" + std::to_string(i) + " [] ");
  sender.join();
}

TEST(HttpServer, ClosesAfterAnAnswerInHttp10UnlessAskedNotTo) {
  HttpServer server(any_port(), echo);
  Client once(server.port());
  once.send("GET / HTTP/1.0\r\n\r\n");
  EXPECT_THAT(once.read_all(), testing::AllOf(HasSubstr("Connection: close\r\n"), testing::EndsWith("GET / [] ")));
  Client twice(server.port());
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(twice.ask("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").head,
                HasSubstr("Connection: keep-alive"));
  }
  Client last(server.port());
  last.send("GET / HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n" + get("/never"));
  EXPECT_THAT(last.read_all(), Not(HasSubstr("never")));
}

TEST(HttpServer, SaysContinueToWhoAsks) {
  HttpServer server(any_port(), echo);
  Client client(server.port());
  client.send("POST / HTTP/1.1\r\nHost: t\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  EXPECT_EQ(client.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  EXPECT_EQ(client.ask("ok").body, "POST / [] ok");
}

TEST(HttpServer, ReadsChunkedBodiesByteByByte) {
  HttpServer server(any_port(), echo);
  Client client(server.port());
  for (const char c :
       std::string("POST / HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n"
                   "5;a=b\r\nhello\r\n1\r\n,\r\nA\r\n 0123\r\n\r\n8\r\n0;x=\"y\"\r\nTrailer: t\r\n\r\n")) {
    ASSERT_TRUE(client.send({&c, 1}));
  }
  EXPECT_EQ(client.read_answer().body, "POST / [] hello, 0123\r\n\r\n8");
  EXPECT_EQ(client.ask(get("/next")).body, "GET /next [] ");
}

TEST(HttpServer, StreamsInChunksFromAnyThread) {
  HttpServer server(any_port(), [](const HttpRequest&, const HttpReply& reply) {
    std::thread([reply] {
      reply.begin(event_stream());
      for (int i = 0; i < 100; ++i) EXPECT_TRUE(reply.write(sse_event(std::to_string(i))));
      EXPECT_TRUE(reply.write(""));  // nothing, and not the end
      EXPECT_TRUE(reply.write(kSseDone));
      reply.end();
      EXPECT_FALSE(reply.write("late"));
    }).detach();
  });
  std::string expected;
  for (int i = 0; i < 100; ++i) expected += "data: " + std::to_string(i) + "\n\n";
  expected += "data: [DONE]\n\n";
  Client client(server.port());
  for (int i = 0; i < 2; ++i) EXPECT_EQ(client.ask(get("/")).body, expected);  // the connection goes on after it
  Client old(server.port());
  old.send("GET / HTTP/1.0\r\n\r\n");
  EXPECT_THAT(old.read_all(), testing::EndsWith("\r\n\r\n" + expected));  // no chunks there
}

TEST(HttpServer, SendsEachEventAtOnce) {
  Replies replies;
  HttpServer server(any_port(), replies.handler());
  Client client(server.port());
  client.send(get("/"));
  const HttpReply reply = replies.next();
  reply.begin(event_stream());
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(reply.write("event" + std::to_string(i)));
    EXPECT_THAT(client.read_until("event" + std::to_string(i)), HasSubstr("event"));  // before the next one is made
  }
  reply.end();
  EXPECT_THAT(client.read_until("0\r\n\r\n"), HasSubstr("0\r\n\r\n"));
}

TEST(HttpServer, NoticesAClientThatLeavesWhileItsAnswerIsPending) {
  Replies replies;
  HttpServer server(any_port(), replies.handler());
  for (const bool has_begun : {false, true}) {
    Client client(server.port());
    client.send(get("/"));
    const HttpReply reply = replies.next();
    auto left = closed(reply);
    if (has_begun) {
      reply.begin(event_stream());
      client.read_until("\r\n\r\n");
    }
    EXPECT_TRUE(reply.is_open());
    EXPECT_EQ(left.wait_for(0s), std::future_status::timeout);
    client.leave();
    ASSERT_EQ(left.wait_for(kLong), std::future_status::ready);
    EXPECT_FALSE(reply.is_open());
    EXPECT_FALSE(reply.write("x"));
    EXPECT_EQ(closed(reply).wait_for(kLong), std::future_status::ready);  // at once, now that it is gone
    reply.send({});
  }
}

TEST(HttpServer, ClosesAStreamThatIsReadTooSlowly) {
  Replies replies;
  HttpOptions options = any_port();
  options.max_buffered_bytes = 100'000;
  HttpServer server(options, replies.handler());
  Client client(server.port(), 4096);
  client.send(get("/"));
  const HttpReply reply = replies.next();
  auto left = closed(reply);
  reply.begin(event_stream());
  const std::string bytes(10'000, 'x');
  int64_t written = 0;
  while (reply.write(bytes)) ASSERT_LT(written += 10'000, 100 << 20);
  EXPECT_FALSE(reply.is_open());
  ASSERT_EQ(left.wait_for(kLong), std::future_status::ready);
  EXPECT_THAT(client.read_all(), Not(testing::EndsWith("0\r\n\r\n")));
  EXPECT_FALSE(client.timed_out());
}

TEST(HttpServer, ClosesAConnectionThatTakesNothingForTheWriteTimeout) {
  Replies replies;
  HttpOptions options = any_port();
  options.write_timeout = 200ms;
  options.max_buffered_bytes = 1 << 30;
  HttpServer server(options, replies.handler());
  Client client(server.port(), 4096);
  client.send(get("/"));
  const HttpReply reply = replies.next();
  auto left = closed(reply);
  reply.begin(event_stream());
  EXPECT_TRUE(reply.write(std::string(64 << 20, 'x')));
  EXPECT_EQ(left.wait_for(kLong), std::future_status::ready);
}

TEST(HttpServer, SendsLargeAnswersWhole) {
  const std::string large(50 << 20, 'y');
  HttpServer server(any_port(), [&](const HttpRequest&, const HttpReply& reply) { reply.send({.body = large}); });
  Client client(server.port(), 4096);
  EXPECT_TRUE(client.ask(get("/")).body == large);
}

TEST(HttpServer, AnswersHeadWithoutABody) {
  HttpServer server(any_port(), echo);
  Client client(server.port());
  client.send("HEAD /h HTTP/1.1\r\nHost: t\r\n\r\n");
  EXPECT_THAT(client.read_answer(/*has_body=*/false).head, HasSubstr("Content-Length: 11\r\n"));  // "HEAD /h [] "
  EXPECT_EQ(client.ask(get("/next")).body, "GET /next [] ");
}

TEST(HttpServer, AnswersAReplyThatIsDroppedAndAHandlerThatThrowsWith500) {
  HttpServer server(any_port(), [](const HttpRequest& request, const HttpReply& reply) {
    if (request.path == "/throw") throw ConfigError("secret");
    if (request.path == "/stream") reply.begin(event_stream());
  });
  Client client(server.port());
  for (const char* path : {"/drop", "/throw"}) {
    const auto answer = client.ask(get(path));
    EXPECT_EQ(answer.status, 500);
    EXPECT_THAT(answer.body, HasSubstr("\"type\": \"server_error\""));
    EXPECT_THAT(answer.body, Not(HasSubstr("secret")));
  }
  client.send(get("/stream"));
  EXPECT_THAT(client.read_all(), Not(HasSubstr("0\r\n\r\n")));  // cut, so that nobody takes it for whole
}

TEST(HttpServer, AnswersPreflightRequestsOnlyWithOrigins) {
  const std::string preflight =
      "OPTIONS /v1 HTTP/1.1\r\nHost: t\r\nOrigin: http://a\r\nAccess-Control-Request-Method: POST\r\n"
      "Access-Control-Request-Headers: authorization\r\n\r\n";
  const std::string ordinary = "GET / HTTP/1.1\r\nHost: t\r\nOrigin: http://a\r\n\r\n";
  HttpServer without(any_port(), echo);
  Client plain(without.port());
  EXPECT_EQ(plain.ask(preflight).body, "OPTIONS /v1 [] ");
  EXPECT_THAT(plain.ask(ordinary).head, Not(HasSubstr("Access-Control")));

  HttpOptions options = any_port();
  options.cors_origins = {"http://a"};
  HttpServer with(options, echo);
  Client client(with.port());
  const auto answer = client.ask(preflight);
  EXPECT_EQ(answer.status, 204);
  EXPECT_THAT(answer.head, HasSubstr("Access-Control-Allow-Origin: http://a\r\n"));
  EXPECT_THAT(answer.head, HasSubstr("Access-Control-Allow-Headers: authorization\r\n"));
  EXPECT_THAT(client.ask(ordinary).head, HasSubstr("Access-Control-Allow-Origin: http://a\r\nVary: Origin\r\n"));
  EXPECT_THAT(client.ask("GET / HTTP/1.1\r\nHost: t\r\nOrigin: http://b\r\n\r\n").head,
              Not(HasSubstr("Access-Control")));
}

TEST(HttpServer, StopsWhenWhatIsInProgressHasEnded) {
  Replies replies;
  HttpServer server(any_port(), replies.handler());
  Client idle(server.port()), busy(server.port()), streaming(server.port()), half(server.port());
  busy.send(get("/") + get("/second"));
  const HttpReply first = replies.next();
  streaming.send(get("/"));
  const HttpReply second = replies.next();
  second.begin(event_stream());
  streaming.read_until("\r\n\r\n");
  idle.send(get("/"));
  replies.next().send({});
  idle.read_answer();
  half.send("GET / HT");
  std::thread stopper([&] { server.stop(kLong); });
  EXPECT_EQ(idle.read_all(), "");  // at once
  EXPECT_FALSE(idle.timed_out());
  EXPECT_FALSE(Client(server.port()).is_connected());
  half.send("TP/1.1\r\n");
  half.read_all();
  EXPECT_FALSE(half.timed_out());
  first.send({.body = "last"});
  EXPECT_THAT(busy.read_all(), testing::AllOf(HasSubstr("Connection: close"), testing::EndsWith("last")));
  EXPECT_TRUE(second.write("more"));
  second.end();
  EXPECT_THAT(streaming.read_all(), testing::EndsWith("4\r\nmore\r\n0\r\n\r\n"));
  busy.leave();
  streaming.leave();
  half.leave();
  stopper.join();
  EXPECT_EQ(server.connections(), 0);
}

TEST(HttpServer, StopsWaitingAfterTheGrace) {
  Replies replies;
  auto server = std::make_unique<HttpServer>(any_port(), replies.handler());
  Client client(server->port());
  client.send(get("/"));
  const HttpReply reply = replies.next();
  auto left = closed(reply);
  server->stop(10ms);
  EXPECT_EQ(server->connections(), 1);
  EXPECT_TRUE(reply.is_open());
  server.reset();
  EXPECT_EQ(left.wait_for(0s), std::future_status::ready);  // the destructor has closed it
  EXPECT_FALSE(reply.write("x"));                           // a reply may outlive the server
  EXPECT_EQ(closed(reply).wait_for(0s), std::future_status::ready);
}

TEST(HttpServer, ServesManyThreadsAndClientsThatLeave) {
  std::atomic<int> left{0};
  std::vector<std::thread> writers;
  {
    HttpServer server(any_port(), [&](const HttpRequest&, const HttpReply& reply) {
      reply.on_close([&] { ++left; });
      writers.emplace_back([reply] {
        reply.begin(event_stream());
        while (reply.write(sse_event("token"))) std::this_thread::yield();
      });
    });
    std::vector<std::unique_ptr<Client>> clients;
    for (int i = 0; i < 16; ++i) {
      clients.push_back(std::make_unique<Client>(server.port()));
      clients.back()->send(get("/"));
    }
    for (auto& client : clients) {
      EXPECT_THAT(client->read_until("token"), HasSubstr("token"));
      client->leave();
    }
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(left, 16);
}

TEST(HttpServer, RefusesOptionsByName) {
  const auto message = [](const HttpOptions& options) -> std::string {
    try {
      HttpServer(options, echo);
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  HttpOptions options = any_port();
  options.max_header_bytes = 0;
  EXPECT_EQ(message(options), "[HttpServer] max_header_bytes must be positive; got 0.");
  options = any_port();
  options.tls_cert = "/nowhere/cert.pem";
  EXPECT_THAT(message(options),
              StartsWith("[HttpServer] tls_cert and tls_key must be given together; got \"/nowhere/cert.pem\""));
  options.tls_key = "/nowhere/key.pem";
  EXPECT_THAT(message(options), HasSubstr("tls_cert"));
  HttpServer server(any_port(), echo);
  options = any_port();
  options.port = server.port();
  EXPECT_THAT(message(options), HasSubstr("cannot listen on host 127.0.0.1, port " + std::to_string(server.port())));
  EXPECT_THROW(HttpServer(options, echo), IoError);
}

TEST(Sse, FormatsEvents) {
  EXPECT_EQ(sse_event("{\"a\": 1}"), "data: {\"a\": 1}\n\n");
  EXPECT_EQ(sse_event("response.created", "{}"), "event: response.created\ndata: {}\n\n");
  EXPECT_EQ(sse_event("a\nb\r\nc\rd"), "data: a\ndata: b\ndata: c\ndata: d\n\n");
  EXPECT_EQ(sse_event("x\ny", ""), "event: x\ndata: \n\n");
}

TEST(HttpMessage, KeepsLineBreaksOutOfHeaders) {
  HttpResponse response;
  response.headers = {{"X-A", "1\r\nEvil: 2"}, {"Bad name", "x"}, {"Content-Length", "99"}, {"Retry-After", "1"}};
  const std::string head = http_write_head(response, {}, HttpBodyKind::Whole).bytes;
  EXPECT_THAT(head, HasSubstr("X-A: 1  Evil: 2\r\n"));
  EXPECT_THAT(head, HasSubstr("Retry-After: 1\r\n"));
  EXPECT_THAT(head, Not(HasSubstr("Bad name")));
  EXPECT_THAT(head, Not(HasSubstr("99")));
}

}  // namespace
}  // namespace easydel::serve

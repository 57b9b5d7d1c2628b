// One client: its requests one after another, each with its answer. Lives on the I/O thread.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "easydel/serve/http/http_channel.h"
#include "easydel/serve/http/http_io.h"
#include "easydel/serve/http/http_parser.h"
#include "easydel/serve/http/http_server.h"
#include "easydel/serve/http/http_tls.h"

namespace easydel::serve {

class HttpConnection;

// What the connections of a server share.
struct HttpShared {
  HttpOptions options;
  HttpHandler handler;
  std::shared_ptr<HttpLoop> loop = std::make_shared<HttpLoop>();
  std::shared_ptr<std::atomic<bool>> stopping = std::make_shared<std::atomic<bool>>(false);
  std::unique_ptr<HttpTls> tls;                             // null: plain
  std::vector<char> scratch = std::vector<char>(64 << 10);  // all reads go here: a waiting connection has no buffer
  std::function<void(const std::shared_ptr<HttpConnection>&)> on_closed;
};

class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  // A refusal, if there is one, is the answer to all that the client may send; then the connection is closed.
  HttpConnection(HttpShared& shared, std::unique_ptr<HttpSocket> socket, std::string refusal = {});

  void start();
  void stop_soon();  // at once when idle, else after the request in progress
  void close();      // now
  bool is_refused() const { return !refusal_.empty(); }

 private:
  // Idle: no byte of a request. Reading: part of one. Answering: the handler's turn. Refusing: the last answer is on
  // its way. Lingering: waits for the client to have read it; closing at once could destroy it on the way.
  enum class Phase { Idle, Reading, Answering, Refusing, Lingering, Closed };

  void read_more();
  void on_readable();
  void on_bytes(std::string_view bytes);
  void on_end_of_input();
  void advance();
  bool parse();
  void dispatch();
  void refuse(int status, std::string_view message);
  void on_channel();
  void flush();
  bool flush_some(std::size_t budget);
  void on_flushed();
  void finish_answer();
  void linger();
  void enter(Phase phase);
  void arm_timer();
  void on_timer();
  bool has_output() const { return out_at_ < out_.size() || !wire_.empty(); }

  HttpShared& shared_;
  std::unique_ptr<HttpSocket> socket_;
  HttpTimer timer_;
  std::unique_ptr<HttpTlsSession> tls_;
  const std::string refusal_;
  Phase phase_ = Phase::Idle;
  bool is_reading_ = false, is_writing_ = false;  // a callback is under way
  bool at_end_ = false;                           // the client sends no more
  std::string in_;                                // not yet parsed
  std::unique_ptr<HttpParser> parser_;
  std::shared_ptr<HttpChannel> channel_;
  std::string out_;  // not yet written, from out_at_
  std::size_t out_at_ = 0;
  std::string wire_;        // the same for TLS, encrypted
  std::size_t sealed_ = 0;  // bytes of out_ that are in it
  static constexpr HttpClock::time_point kNever = HttpClock::time_point::max();
  HttpClock::time_point read_deadline_ = kNever, write_deadline_ = kNever, timer_at_ = kNever;
};

}  // namespace easydel::serve

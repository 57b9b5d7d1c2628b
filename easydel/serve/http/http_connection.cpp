#include "easydel/serve/http/http_connection.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "easydel/core/log.h"
#include "easydel/serve/http/http_message.h"

namespace easydel::serve {

namespace {

constexpr std::size_t kHttpPipelinedBytes = 64 << 10;  // of later requests that are read while one is answered
constexpr std::size_t kHttpTurnBytes = 1 << 20;        // written before others get their turn
constexpr std::size_t kHttpRecordBytes = 16 << 10;     // of text in one record of TLS
constexpr auto kHttpLinger = std::chrono::seconds(2);

void http_release(std::string& buffer) { std::string().swap(buffer); }

}  // namespace

HttpConnection::HttpConnection(HttpShared& shared, std::unique_ptr<HttpSocket> socket, std::string refusal)
    : shared_(shared), socket_(std::move(socket)), timer_(*shared.loop), refusal_(std::move(refusal)) {
  if (shared.tls) tls_ = shared.tls->accept();
}

void HttpConnection::start() {
  read_deadline_ = HttpClock::now() + shared_.options.read_timeout;
  if (is_refused() && !tls_) return refuse(503, refusal_);
  arm_timer();
  read_more();
}

void HttpConnection::stop_soon() {
  if (phase_ == Phase::Idle && !has_output()) return close();
  if (phase_ == Phase::Reading) refuse(503, "The server is shutting down.");
}

void HttpConnection::close() {
  if (phase_ == Phase::Closed) return;
  const auto self = shared_from_this();
  phase_ = Phase::Closed;
  timer_.cancel();
  socket_->close();
  parser_.reset();
  http_release(in_);
  http_release(out_);
  http_release(wire_);
  if (const auto channel = std::exchange(channel_, nullptr)) channel->close();
  shared_.on_closed(self);
}

// There is always a read under way, to see the client leave; except when it sends requests faster than they are
// answered.
void HttpConnection::read_more() {
  if (is_reading_ || at_end_ || phase_ == Phase::Closed) return;
  if (phase_ == Phase::Answering && in_.size() >= kHttpPipelinedBytes) return;
  is_reading_ = true;
  socket_->when_readable([self = shared_from_this()] {
    self->is_reading_ = false;
    self->on_readable();
  });
}

void HttpConnection::on_readable() {
  if (phase_ == Phase::Closed) return;
  const std::ptrdiff_t size = socket_->read_some(shared_.scratch.data(), shared_.scratch.size());
  if (size == HttpSocket::kFailed) return close();
  if (size == HttpSocket::kAgain) return read_more();
  if (size == 0) return on_end_of_input();
  const std::string_view bytes(shared_.scratch.data(), static_cast<std::size_t>(size));
  if (!tls_) {
    on_bytes(bytes);
  } else {
    std::string text;
    const bool works = tls_->receive(bytes, text);
    wire_ += tls_->take_output();
    flush();  // the handshake, or an alert
    if (!works) return close();
    if (is_refused() && phase_ == Phase::Idle && tls_->is_ready()) refuse(503, refusal_);
    if (!text.empty()) on_bytes(text);
    if (phase_ != Phase::Closed && tls_->has_ended()) return on_end_of_input();
  }
  read_more();
}

void HttpConnection::on_bytes(std::string_view bytes) {
  if (phase_ == Phase::Closed || phase_ == Phase::Refusing || phase_ == Phase::Lingering) return;
  in_ += bytes;
  if (phase_ != Phase::Answering) advance();
}

// A client that stops sending has left, unless its answer is complete and only has to be written.
void HttpConnection::on_end_of_input() {
  at_end_ = true;
  const bool answered = phase_ == Phase::Refusing || (phase_ == Phase::Answering && channel_->has_ended());
  if (!answered) close();
}

// Parses what there is until a request is whole, more bytes are needed, or the input is refused.
void HttpConnection::advance() {
  while (!in_.empty() && (phase_ == Phase::Idle || phase_ == Phase::Reading)) {
    if (phase_ == Phase::Idle) {
      if (in_.starts_with("\r\n")) {  // some clients put one after a body
        in_.erase(0, 2);
        continue;
      }
      if (in_ == "\r") break;
      enter(Phase::Reading);
      parser_ = std::make_unique<HttpParser>(
          HttpLimits{.header_bytes = shared_.options.max_header_bytes, .body_bytes = shared_.options.max_body_bytes});
    }
    if (!parse()) break;
  }
  if (in_.empty()) http_release(in_);
  if (at_end_ && (phase_ == Phase::Idle || phase_ == Phase::Reading)) return close();
  read_more();
}

// False when it needs more bytes.
bool HttpConnection::parse() {
  const bool had_header = parser_->has_header();
  in_.erase(0, parser_->put(in_));
  if (parser_->error_status() != 0) {
    refuse(parser_->error_status(), parser_->error_message());
  } else if (parser_->is_done()) {
    dispatch();
  } else {
    if (!had_header && parser_->has_header() && parser_->expects_continue() && in_.empty()) {
      out_ += "HTTP/1.1 100 Continue\r\n\r\n";
      flush();
    }
    return false;
  }
  return true;
}

void HttpConnection::dispatch() {
  enter(Phase::Answering);
  const std::unique_ptr<HttpParser> parser = std::move(parser_);
  HttpRequest request = std::move(parser->request());
  request.remote = socket_->remote();
  HttpFraming framing;
  framing.http_1_0 = parser->is_http_1_0();
  framing.is_head = request.method == "HEAD";
  framing.keep_alive = parser->keep_alive();
  framing.allow_origin = http_allow_origin(shared_.options.cors_origins, request);
  channel_ = std::make_shared<HttpChannel>(shared_.loop, std::move(framing), shared_.options.max_buffered_bytes,
                                           shared_.stopping, [weak = weak_from_this()] {
                                             if (const auto self = weak.lock()) self->on_channel();
                                           });
  const HttpReply reply(std::make_shared<HttpChannelReply>(channel_));
  if (auto preflight = http_preflight(shared_.options.cors_origins, request)) return reply.send(std::move(*preflight));
  try {
    shared_.handler(std::move(request), reply);
  } catch (const std::exception& error) {
    log::error("[HttpServer] the handler failed: ", error.what());
    reply.send(http_error(500, "The server failed to handle the request."));
  }
  if (at_end_ && !channel_->has_ended()) close();
}

// The last answer of this connection, by the server itself.
void HttpConnection::refuse(int status, std::string_view message) {
  HttpFraming framing;
  framing.keep_alive = false;
  framing.is_head = parser_ && parser_->request().method == "HEAD";
  const HttpResponse response = http_error(status, message);
  const HttpHead head = http_write_head(response, framing, HttpBodyKind::Whole);
  out_ += head.bytes;
  if (head.has_body) out_ += response.body;
  parser_.reset();
  http_release(in_);
  enter(Phase::Refusing);
  flush();
  read_more();
}

// The channel has something: bytes, or the end.
void HttpConnection::on_channel() {
  if (!channel_) return;
  HttpChannel::Taken taken = channel_->take();
  if (taken.has_failed) return close();
  if (out_.empty()) {
    out_ = std::move(taken.bytes);
  } else {
    out_ += taken.bytes;
  }
  flush();
}

void HttpConnection::flush() {
  if (phase_ == Phase::Closed || is_writing_) return;
  if (!flush_some(kHttpTurnBytes)) return close();
  if (!has_output()) return on_flushed();
  if (write_deadline_ == kNever) write_deadline_ = HttpClock::now() + shared_.options.write_timeout;
  arm_timer();
  is_writing_ = true;
  socket_->when_writable([self = shared_from_this()] {
    self->is_writing_ = false;
    self->flush();
  });
}

// Writes what the socket takes; false when it is broken.
bool HttpConnection::flush_some(std::size_t budget) {
  while (has_output() && budget > 0) {
    if (tls_ && wire_.empty()) {
      if (!tls_->is_ready()) return false;
      sealed_ = std::min(out_.size() - out_at_, kHttpRecordBytes);
      if (!tls_->send(std::string_view(out_).substr(out_at_, sealed_))) return false;
      wire_ = tls_->take_output();
    }
    const std::string_view bytes = tls_ ? std::string_view(wire_) : std::string_view(out_).substr(out_at_);
    const std::ptrdiff_t done = socket_->write_some(bytes.substr(0, budget));
    if (done == HttpSocket::kFailed) return false;
    if (done == HttpSocket::kAgain) return true;
    const auto size = static_cast<std::size_t>(done);
    write_deadline_ = HttpClock::now() + shared_.options.write_timeout;
    budget -= size;
    std::size_t flushed = size;
    if (tls_) {
      wire_.erase(0, size);
      flushed = wire_.empty() ? std::exchange(sealed_, 0) : 0;
    }
    out_at_ += flushed;
    if (channel_) channel_->flushed(flushed);
    if (out_at_ > kHttpPipelinedBytes && out_at_ > out_.size() / 2) {
      out_.erase(0, out_at_);
      out_at_ = 0;
    }
  }
  return true;
}

void HttpConnection::on_flushed() {
  write_deadline_ = kNever;
  out_at_ = 0;
  http_release(out_);
  http_release(wire_);
  if (phase_ == Phase::Refusing) return linger();
  if (phase_ == Phase::Answering && channel_ && channel_->has_ended()) finish_answer();
}

void HttpConnection::finish_answer() {
  // The end may have come from another thread since the last take().
  HttpChannel::Taken rest = channel_->take();
  if (!rest.bytes.empty()) {
    out_ = std::move(rest.bytes);
    return flush();
  }
  const bool goes_on = channel_->keep_alive() && !*shared_.stopping;
  channel_->finish();
  channel_.reset();
  if (!goes_on) return *shared_.stopping && in_.empty() ? close() : linger();
  enter(Phase::Idle);
  advance();
}

void HttpConnection::linger() {
  if (at_end_) return close();
  http_release(in_);
  enter(Phase::Lingering);
  if (tls_) {
    tls_->end();
    wire_ = tls_->take_output();
    if (!flush_some(kHttpTurnBytes)) return close();
    http_release(wire_);  // what does not fit is only a farewell
  }
  socket_->end_writing();
  read_more();
}

void HttpConnection::enter(Phase phase) {
  phase_ = phase;
  const HttpClock::time_point now = HttpClock::now();
  switch (phase) {
    case Phase::Idle: read_deadline_ = now + shared_.options.idle_timeout; break;
    case Phase::Reading: read_deadline_ = now + shared_.options.read_timeout; break;
    case Phase::Lingering: read_deadline_ = now + kHttpLinger; break;
    default: read_deadline_ = kNever;
  }
  arm_timer();
}

// The timer is only moved forward: a deadline that moves back, as with every token written, is found out when it fires.
void HttpConnection::arm_timer() {
  const HttpClock::time_point deadline = std::min(read_deadline_, write_deadline_);
  if (phase_ == Phase::Closed || deadline >= timer_at_) return;
  timer_at_ = deadline;
  timer_.start(deadline, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self || self->phase_ == Phase::Closed) return;
    self->timer_at_ = kNever;
    self->on_timer();
  });
}

void HttpConnection::on_timer() {
  const HttpClock::time_point now = HttpClock::now();
  if (now >= write_deadline_) return close();
  if (now < read_deadline_) return arm_timer();
  if (phase_ == Phase::Reading) return refuse(408, "The request did not arrive in time.");
  close();
}

}  // namespace easydel::serve

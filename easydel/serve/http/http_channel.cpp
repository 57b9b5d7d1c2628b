#include "easydel/serve/http/http_channel.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "easydel/core/log.h"

namespace easydel::serve {

namespace {

// The I/O thread serves everybody, and goes on.
void http_call_back(const std::function<void()>& callback) {
  try {
    callback();
  } catch (const std::exception& error) {
    log::error("[HttpServer] a callback of on_close failed: ", error.what());
  }
}

}  // namespace

HttpChannel::HttpChannel(std::shared_ptr<HttpLoop> loop, HttpFraming framing, int64_t max_buffered_bytes,
                         std::shared_ptr<const std::atomic<bool>> stopping, std::function<void()> wake)
    : loop_(std::move(loop)),
      max_buffered_bytes_(max_buffered_bytes),
      stopping_(std::move(stopping)),
      framing_(std::move(framing)),
      wake_(std::move(wake)) {}

// The mutex is held in start, append_body and wake_up.
void HttpChannel::start(const HttpResponse& response, HttpBodyKind kind) {
  if (*stopping_) framing_.keep_alive = false;
  HttpHead head = http_write_head(response, framing_, kind);
  keep_alive_ = head.keep_alive;
  has_body_ = head.has_body;
  is_chunked_ = head.is_chunked;
  pending_ += head.bytes;
}

void HttpChannel::append_body(std::string_view bytes) {
  if (!has_body_) return;
  if (is_chunked_) {
    http_append_chunk(pending_, bytes);
  } else {
    pending_ += bytes;
  }
}

void HttpChannel::wake_up() {
  if (is_waking_) return;
  is_waking_ = loop_->post([self = shared_from_this()] {
    const std::function<void()> wake = self->wake_;  // a copy: what it calls may end it
    if (wake) wake();
  });
}

void HttpChannel::send(HttpResponse response) {
  std::vector<std::function<void()>> unused;  // destroyed without the mutex: they may hold anything
  const std::lock_guard lock(mutex_);
  if (state_ != State::Waiting) return;
  start(response, HttpBodyKind::Whole);
  append_body(response.body);
  buffered_ = static_cast<int64_t>(pending_.size());
  state_ = State::Ended;
  unused.swap(callbacks_);
  wake_up();
}

void HttpChannel::begin(HttpResponse head) {
  const std::lock_guard lock(mutex_);
  if (state_ != State::Waiting) return;
  start(head, HttpBodyKind::Stream);
  append_body(head.body);
  buffered_ = static_cast<int64_t>(pending_.size());
  state_ = State::Streaming;
  wake_up();
}

bool HttpChannel::write(std::string_view bytes) {
  const std::lock_guard lock(mutex_);
  if (state_ != State::Streaming) return false;
  // What is larger than the bound by itself goes through when nothing else waits.
  if (buffered_ > 0 && buffered_ + static_cast<int64_t>(bytes.size()) > max_buffered_bytes_) {
    state_ = State::Failed;
    wake_up();
    return false;
  }
  const std::size_t before = pending_.size();
  append_body(bytes);
  buffered_ += static_cast<int64_t>(pending_.size() - before);
  if (pending_.size() > before) wake_up();
  return true;
}

void HttpChannel::end() {
  std::vector<std::function<void()>> unused;
  const std::lock_guard lock(mutex_);
  if (state_ != State::Streaming) return;
  if (has_body_ && is_chunked_) pending_ += "0\r\n\r\n";
  state_ = State::Ended;
  unused.swap(callbacks_);
  wake_up();
}

bool HttpChannel::is_open() const {
  const std::lock_guard lock(mutex_);
  return state_ == State::Waiting || state_ == State::Streaming;
}

void HttpChannel::on_close(std::function<void()> callback) {
  {
    const std::lock_guard lock(mutex_);
    if (state_ == State::Ended) return;
    if (state_ != State::Closed) return callbacks_.push_back(std::move(callback));
  }
  if (!loop_->post([callback] { http_call_back(callback); })) callback();  // there is no I/O thread any more
}

void HttpChannel::drop() {
  bool unanswered = false;
  {
    const std::lock_guard lock(mutex_);
    unanswered = state_ == State::Waiting;
    if (state_ == State::Streaming) {  // without an end the client must not take it for whole
      state_ = State::Failed;
      wake_up();
    }
  }
  if (unanswered) send(http_error(500, "The request was dropped without an answer."));
}

HttpChannel::Taken HttpChannel::take() {
  const std::lock_guard lock(mutex_);
  is_waking_ = false;
  Taken taken;
  taken.bytes = std::exchange(pending_, {});
  taken.has_ended = state_ == State::Ended;
  taken.has_failed = state_ == State::Failed;
  return taken;
}

void HttpChannel::flushed(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  buffered_ = std::max<int64_t>(buffered_ - static_cast<int64_t>(bytes), 0);
}

bool HttpChannel::has_ended() const {
  const std::lock_guard lock(mutex_);
  return state_ == State::Ended;
}

bool HttpChannel::keep_alive() const {
  const std::lock_guard lock(mutex_);
  return keep_alive_;
}

void HttpChannel::close() {
  std::vector<std::function<void()>> callbacks;
  {
    const std::lock_guard lock(mutex_);
    if (state_ != State::Ended) state_ = State::Closed;
    callbacks.swap(callbacks_);
    pending_ = {};
  }
  finish();
  for (const auto& callback : callbacks) http_call_back(callback);
}

void HttpChannel::finish() { wake_ = nullptr; }

}  // namespace easydel::serve

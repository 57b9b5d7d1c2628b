// The way of one answer from any thread to the I/O thread, with a bound on what waits in between.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "easydel/serve/http/http_io.h"
#include "easydel/serve/http/http_message.h"
#include "easydel/serve/http/http_reply.h"

namespace easydel::serve {

class HttpChannel : public std::enable_shared_from_this<HttpChannel> {
 public:
  // `wake` is called on the I/O thread when there is something to take(); never after close() or finish().
  HttpChannel(std::shared_ptr<HttpLoop> loop, HttpFraming framing, int64_t max_buffered_bytes,
              std::shared_ptr<const std::atomic<bool>> stopping, std::function<void()> wake);

  // For any thread; see HttpReply.
  void send(HttpResponse response);
  void begin(HttpResponse head);
  bool write(std::string_view bytes);
  void end();
  bool is_open() const;
  void on_close(std::function<void()> callback);
  void drop();  // the last HttpReply is gone

  // For the I/O thread.
  struct Taken {
    std::string bytes;
    bool has_ended = false;
    bool has_failed = false;  // the connection is to be closed: read too slowly, or left in the middle
  };
  Taken take();
  void flushed(std::size_t bytes);  // so many of those taken are with the client's system now
  bool has_ended() const;
  bool keep_alive() const;  // after the end: whether the connection may go on
  void close();             // the client is gone; calls the callbacks unless the answer had ended
  void finish();            // the answer is out

 private:
  enum class State { Waiting, Streaming, Ended, Failed, Closed };

  void start(const HttpResponse& response, HttpBodyKind kind);
  void append_body(std::string_view bytes);
  void wake_up();

  const std::shared_ptr<HttpLoop> loop_;
  const int64_t max_buffered_bytes_;
  const std::shared_ptr<const std::atomic<bool>> stopping_;

  mutable std::mutex mutex_;
  HttpFraming framing_;
  State state_ = State::Waiting;
  bool keep_alive_ = false, has_body_ = true, is_chunked_ = false;
  bool is_waking_ = false;
  std::string pending_;
  int64_t buffered_ = 0;  // pending, and taken but not flushed
  std::vector<std::function<void()>> callbacks_;
  std::function<void()> wake_;  // the I/O thread's
};

// What copies of an HttpReply share; the channel itself is also held by the connection.
class HttpChannelReply : public HttpReply::Impl {
 public:
  explicit HttpChannelReply(std::shared_ptr<HttpChannel> channel) : channel_(std::move(channel)) {}
  ~HttpChannelReply() override { channel_->drop(); }

  void send(HttpResponse response) override { channel_->send(std::move(response)); }
  void begin(HttpResponse head) override { channel_->begin(std::move(head)); }
  bool write(std::string_view bytes) override { return channel_->write(bytes); }
  void end() override { channel_->end(); }
  bool is_open() const override { return channel_->is_open(); }
  void on_close(std::function<void()> callback) override { channel_->on_close(std::move(callback)); }

 private:
  const std::shared_ptr<HttpChannel> channel_;
};

}  // namespace easydel::serve

// The I/O thread's event loop, its sockets and timers. Asio is behind it and shows nowhere else.
// Everything but HttpLoop::post belongs to the I/O thread. A callback whose object is closed first is destroyed, not
// called.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace easydel::serve {

using HttpClock = std::chrono::steady_clock;

class HttpLoop {
 public:
  class Impl;
  HttpLoop();
  ~HttpLoop();
  HttpLoop(const HttpLoop&) = delete;
  HttpLoop& operator=(const HttpLoop&) = delete;

  // Runs it on the I/O thread, later. Any thread may call this. False, and it is not run, after finish().
  bool post(std::function<void()> work);
  void run();  // until release() was called and nothing is left to wait for
  void release();
  void finish();  // once run() has returned: no thread may post any more
  Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

class HttpTimer {
 public:
  explicit HttpTimer(HttpLoop& loop);
  ~HttpTimer();
  void start(HttpClock::time_point when, std::function<void()> callback);  // in place of what it waited for
  void cancel();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// A connected socket that never blocks.
class HttpSocket {
 public:
  class Impl;
  explicit HttpSocket(std::unique_ptr<Impl> impl);
  ~HttpSocket();

  // Bytes read or written; kAgain when there is nothing to read or no room, kFailed when the connection is broken.
  // read_some returns 0 at the end of what the client sends.
  static constexpr std::ptrdiff_t kAgain = -1, kFailed = -2;
  std::ptrdiff_t read_some(char* data, std::size_t size);
  std::ptrdiff_t write_some(std::string_view bytes);
  void when_readable(std::function<void()> callback);
  void when_writable(std::function<void()> callback);
  void end_writing();  // the client sees the end; reading goes on
  void close();
  const std::string& remote() const;

 private:
  std::unique_ptr<Impl> impl_;
};

class HttpAcceptor {
 public:
  HttpAcceptor(HttpLoop& loop, const std::string& host, uint16_t port);  // IoError when it cannot be bound
  ~HttpAcceptor();
  uint16_t port() const;
  // Null when none could be taken; out of file descriptors, for one. Once for each call.
  void accept(std::function<void(std::unique_ptr<HttpSocket>)> callback);
  void close();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace easydel::serve

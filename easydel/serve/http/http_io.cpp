#include "easydel/serve/http/http_io.h"

#include <sys/socket.h>

#include <cerrno>
#include <mutex>
#include <utility>  // before Asio 1.74, which forgets it

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include "easydel/core/error.h"

namespace easydel::serve {

namespace asio = boost::asio;
using asio::ip::tcp;
using HttpIoCode = boost::system::error_code;

class HttpLoop::Impl {
 public:
  asio::io_context context{1};  // one thread runs it
  asio::executor_work_guard<asio::io_context::executor_type> guard = asio::make_work_guard(context);
  std::mutex mutex;
  bool finished = false;
};

HttpLoop::HttpLoop() : impl_(std::make_unique<Impl>()) {}
HttpLoop::~HttpLoop() = default;

bool HttpLoop::post(std::function<void()> work) {
  const std::lock_guard lock(impl_->mutex);
  if (impl_->finished) return false;
  asio::post(impl_->context, std::move(work));
  return true;
}

void HttpLoop::run() { impl_->context.run(); }
void HttpLoop::release() { impl_->guard.reset(); }

void HttpLoop::finish() {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->finished = true;
  }
  // What was posted after run() returned: the last of it sees that its connection is closed.
  impl_->context.restart();
  impl_->context.run();
}

class HttpTimer::Impl {
 public:
  explicit Impl(asio::io_context& context) : timer(context) {}
  asio::steady_timer timer;
};

HttpTimer::HttpTimer(HttpLoop& loop) : impl_(std::make_unique<Impl>(loop.impl().context)) {}
HttpTimer::~HttpTimer() = default;

void HttpTimer::start(HttpClock::time_point when, std::function<void()> callback) {
  impl_->timer.expires_at(when);
  impl_->timer.async_wait([callback = std::move(callback)](const HttpIoCode& ec) {
    if (!ec) callback();
  });
}

void HttpTimer::cancel() { impl_->timer.cancel(); }

class HttpSocket::Impl {
 public:
  explicit Impl(tcp::socket connected) : socket(std::move(connected)) {
    HttpIoCode ignored;
    socket.non_blocking(true, ignored);
    socket.set_option(tcp::no_delay(true), ignored);  // a token should leave at once
    const tcp::endpoint peer = socket.remote_endpoint(ignored);
    const std::string address = peer.address().to_string();
    const std::string port = std::to_string(peer.port());
    remote = peer.address().is_v6() ? "[" + address + "]:" + port : address + ":" + port;
  }

  void wait(tcp::socket::wait_type what, std::function<void()> callback) {
    socket.async_wait(what, [callback = std::move(callback)](const HttpIoCode& ec) {
      if (!ec) callback();
    });
  }

  tcp::socket socket;
  std::string remote;
};

HttpSocket::HttpSocket(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpSocket::~HttpSocket() = default;
const std::string& HttpSocket::remote() const { return impl_->remote; }

namespace {

std::ptrdiff_t http_io_result(std::ptrdiff_t done) {
  if (done >= 0) return done;
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? HttpSocket::kAgain : HttpSocket::kFailed;
}

}  // namespace

std::ptrdiff_t HttpSocket::read_some(char* data, std::size_t size) {
  return http_io_result(::recv(impl_->socket.native_handle(), data, size, MSG_DONTWAIT));
}

std::ptrdiff_t HttpSocket::write_some(std::string_view bytes) {
  return http_io_result(::send(impl_->socket.native_handle(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL));
}

void HttpSocket::when_readable(std::function<void()> callback) {
  impl_->wait(tcp::socket::wait_read, std::move(callback));
}

void HttpSocket::when_writable(std::function<void()> callback) {
  impl_->wait(tcp::socket::wait_write, std::move(callback));
}

void HttpSocket::end_writing() {
  HttpIoCode ignored;
  impl_->socket.shutdown(tcp::socket::shutdown_send, ignored);
}

void HttpSocket::close() {
  HttpIoCode ignored;
  impl_->socket.close(ignored);
}

class HttpAcceptor::Impl {
 public:
  explicit Impl(asio::io_context& context) : acceptor(context) {}
  tcp::acceptor acceptor;
};

HttpAcceptor::HttpAcceptor(HttpLoop& loop, const std::string& host, uint16_t port)
    : impl_(std::make_unique<Impl>(loop.impl().context)) {
  HttpIoCode ec;
  tcp::resolver resolver(loop.impl().context);
  const auto found =
      resolver.resolve(host, std::to_string(port), tcp::resolver::passive | tcp::resolver::numeric_service, ec);
  require<IoError>(!ec && !found.empty(), "[HttpServer] host must be an address of this machine; got \"", host,
                   "\": ", ec.message(), ".");
  for (const auto& entry : found) {
    tcp::acceptor& acceptor = impl_->acceptor;
    HttpIoCode ignored;
    acceptor.close(ignored);
    acceptor.open(entry.endpoint().protocol(), ec);
    if (!ec) acceptor.set_option(tcp::acceptor::reuse_address(true), ec);
    if (!ec) acceptor.bind(entry.endpoint(), ec);
    if (!ec) acceptor.listen(asio::socket_base::max_listen_connections, ec);
    if (!ec) return;
  }
  fail<IoError>("[HttpServer] cannot listen on host ", host, ", port ", port, ": ", ec.message(),
                ". Choose another port, or 0 for any free one.");
}

HttpAcceptor::~HttpAcceptor() = default;

uint16_t HttpAcceptor::port() const { return impl_->acceptor.local_endpoint().port(); }

void HttpAcceptor::accept(std::function<void(std::unique_ptr<HttpSocket>)> callback) {
  impl_->acceptor.async_accept([callback = std::move(callback)](const HttpIoCode& ec, tcp::socket socket) {
    if (ec == asio::error::operation_aborted) return;
    if (ec) return callback(nullptr);
    callback(std::make_unique<HttpSocket>(std::make_unique<HttpSocket::Impl>(std::move(socket))));
  });
}

void HttpAcceptor::close() {
  HttpIoCode ignored;
  impl_->acceptor.close(ignored);
}

}  // namespace easydel::serve

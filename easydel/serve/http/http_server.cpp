#include "easydel/serve/http/http_server.h"

#include <sys/resource.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <unordered_set>

#include "easydel/core/error.h"
#include "easydel/core/log.h"
#include "easydel/serve/http/http_connection.h"
#include "easydel/serve/http/http_io.h"

namespace easydel::serve {

namespace {

constexpr std::size_t kHttpRefusedConnections = 256;  // that get to know why; more are just closed
constexpr auto kHttpAcceptPause = std::chrono::milliseconds(100);

void http_check(const HttpOptions& options) {
  const auto positive = [](const char* name, int64_t value) {
    require<ConfigError>(value > 0, "[HttpServer] ", name, " must be positive; got ", value, ".");
  };
  positive("max_body_bytes", options.max_body_bytes);
  positive("max_header_bytes", options.max_header_bytes);
  require<ConfigError>(options.max_header_bytes <= (int64_t{1} << 30),
                       "[HttpServer] max_header_bytes must be at most 2^30; got ", options.max_header_bytes, ".");
  positive("max_connections", options.max_connections);
  positive("max_buffered_bytes", options.max_buffered_bytes);
  positive("read_timeout", options.read_timeout.count());
  positive("idle_timeout", options.idle_timeout.count());
  positive("write_timeout", options.write_timeout.count());
  require<ConfigError>(options.tls_cert.empty() == options.tls_key.empty(),
                       "[HttpServer] tls_cert and tls_key must be given together; got \"", options.tls_cert,
                       "\" and \"", options.tls_key, "\".");
}

// A connection takes a file descriptor, and many systems give a process 1,024 until it asks for more.
void http_raise_descriptors(int64_t connections) {
  constexpr rlim_t kOthers = 512;  // what else the process has open
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  const rlim_t wanted = static_cast<rlim_t>(connections) + kOthers;
  if (limit.rlim_cur >= wanted) return;
  limit.rlim_cur = std::min(wanted, limit.rlim_max);
  if (setrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur == wanted) return;
  getrlimit(RLIMIT_NOFILE, &limit);
  log::warning("[HttpServer] max_connections is ", connections, "; the system allows this process ", limit.rlim_cur,
               " open files. See ulimit -n.");
}

}  // namespace

class HttpServer::Impl {
 public:
  Impl(HttpOptions options, HttpHandler handler);
  ~Impl();

  void stop(std::chrono::milliseconds grace);
  uint16_t port() const { return port_; }
  int64_t connections() const { return count_; }

 private:
  using Connections = std::unordered_set<std::shared_ptr<HttpConnection>>;

  void accept();
  void on_accepted(std::unique_ptr<HttpSocket> socket);
  void on_closed(const std::shared_ptr<HttpConnection>& connection);
  void stop_accepting();
  void close_all();

  HttpShared shared_;
  std::unique_ptr<HttpAcceptor> acceptor_;
  std::unique_ptr<HttpTimer> pause_;
  uint16_t port_ = 0;
  Connections connections_, refused_;
  std::atomic<int64_t> count_{0};
  std::mutex mutex_;
  std::condition_variable idle_;
  int64_t open_ = 0;  // connections_ and refused_; under the mutex
  bool has_stopped_accepting_ = false;
  std::thread thread_;
};

HttpServer::Impl::Impl(HttpOptions options, HttpHandler handler) {
  http_check(options);
  require<ConfigError>(handler != nullptr, "[HttpServer] handler must be a function; got none.");
  if (!options.tls_cert.empty()) shared_.tls = std::make_unique<HttpTls>(options.tls_cert, options.tls_key);
  http_raise_descriptors(options.max_connections);
  shared_.options = std::move(options);
  shared_.handler = std::move(handler);
  shared_.on_closed = [this](const std::shared_ptr<HttpConnection>& connection) { on_closed(connection); };
  acceptor_ = std::make_unique<HttpAcceptor>(*shared_.loop, shared_.options.host, shared_.options.port);
  pause_ = std::make_unique<HttpTimer>(*shared_.loop);
  port_ = acceptor_->port();
  accept();
  thread_ = std::thread([this] { shared_.loop->run(); });
}

HttpServer::Impl::~Impl() {
  shared_.loop->post([this] {
    *shared_.stopping = true;
    stop_accepting();
    close_all();
    shared_.loop->release();
  });
  thread_.join();
  shared_.loop->finish();
  acceptor_.reset();
  pause_.reset();
}

void HttpServer::Impl::accept() {
  acceptor_->accept([this](std::unique_ptr<HttpSocket> socket) { on_accepted(std::move(socket)); });
}

void HttpServer::Impl::on_accepted(std::unique_ptr<HttpSocket> socket) {
  if (*shared_.stopping) return;
  if (!socket) {  // most likely out of file descriptors: trying again at once would fail again
    return pause_->start(HttpClock::now() + kHttpAcceptPause, [this] {
      if (!*shared_.stopping) accept();
    });
  }
  const bool has_room = count_ < shared_.options.max_connections;
  if (has_room || refused_.size() < kHttpRefusedConnections) {
    const auto connection = std::make_shared<HttpConnection>(
        shared_, std::move(socket), has_room ? "" : "The server has too many connections. Try again later.");
    (has_room ? connections_ : refused_).insert(connection);
    if (has_room) ++count_;
    {
      const std::lock_guard lock(mutex_);
      ++open_;
    }
    connection->start();
  }
  accept();
}

void HttpServer::Impl::on_closed(const std::shared_ptr<HttpConnection>& connection) {
  if (connections_.erase(connection) > 0) {
    --count_;
  } else {
    refused_.erase(connection);
  }
  const std::lock_guard lock(mutex_);
  if (--open_ == 0) idle_.notify_all();
}

void HttpServer::Impl::stop_accepting() {
  pause_->cancel();
  acceptor_->close();
}

void HttpServer::Impl::close_all() {
  for (const Connections& some : {connections_, refused_}) {  // copies: closing takes them out
    for (const auto& connection : some) connection->close();
  }
}

void HttpServer::Impl::stop(std::chrono::milliseconds grace) {
  shared_.loop->post([this] {
    *shared_.stopping = true;
    stop_accepting();
    for (const auto& connection : Connections(connections_)) connection->stop_soon();
    const std::lock_guard lock(mutex_);
    has_stopped_accepting_ = true;
    idle_.notify_all();
  });
  if (std::this_thread::get_id() == thread_.get_id()) return;  // waiting for itself would never end
  std::unique_lock lock(mutex_);
  idle_.wait_for(lock, grace, [this] { return has_stopped_accepting_ && open_ == 0; });
}

HttpServer::HttpServer(HttpOptions options, HttpHandler handler)
    : impl_(std::make_unique<Impl>(std::move(options), std::move(handler))) {}
HttpServer::~HttpServer() = default;
uint16_t HttpServer::port() const { return impl_->port(); }
int64_t HttpServer::connections() const { return impl_->connections(); }
void HttpServer::stop(std::chrono::milliseconds grace) { impl_->stop(grace); }

}  // namespace easydel::serve

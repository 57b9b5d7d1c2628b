#include "easydel/trainers/dashboard/dashboard_server.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "easydel/core/error.h"
#include "easydel/core/log.h"
#include "easydel/serve/http/http_message.h"
#include "easydel/trainers/dashboard/live_report.h"

namespace easydel {
namespace {

using Clock = std::chrono::steady_clock;

// What requests are answered with: made by one thread, read by the server's.
class DashboardPages {
 public:
  void update(const LiveReport& report) {
    std::string page = report.page(), data = report.data();
    const std::lock_guard lock(mutex_);
    page_ = std::move(page);
    data_ = std::move(data);
    version_ = concat("version=", report.version());
  }

  serve::HttpResponse answer(const serve::HttpRequest& request) const {
    const std::lock_guard lock(mutex_);
    if (request.method != "GET") return serve::http_error(405, "Only GET is supported.");
    if (request.path == "/") return {.content_type = "text/html; charset=utf-8", .headers = {}, .body = page_};
    if (request.path == "/favicon.ico") return {.status = 204, .headers = {}, .body = {}};  // browsers ask for one
    if (request.path != "/data") return serve::http_error(404, "Not found: there are / and /data.");
    if (request.query == version_) return {.status = 204, .headers = {}, .body = {}};
    return {.headers = {}, .body = data_};
  }

 private:
  mutable std::mutex mutex_;
  std::string page_, data_, version_;
};

}  // namespace

class DashboardServer::Impl {
 public:
  Impl(std::vector<std::filesystem::path> runs, const serve::HttpOptions& http)
      : host_(http.host),
        report_(std::move(runs)),
        server_((refresh(), http), [this](const serve::HttpRequest& request, const serve::HttpReply& reply) {
          reply.send(pages_.answer(request));
        }) {
    thread_ = std::thread([this] { work(); });
  }
  ~Impl() {
    {
      const std::lock_guard lock(mutex_);
      is_ending_ = true;
    }
    ends_.notify_all();
    thread_.join();
  }

  std::string address() const { return concat("http://", host_, ":", server_.port(), "/"); }

 private:
  void refresh() {
    if (report_.refresh()) pages_.update(report_);
  }

  void work() {
    std::unique_lock lock(mutex_);
    std::chrono::nanoseconds pause = std::chrono::seconds(1);
    while (!ends_.wait_for(lock, pause, [&] { return is_ending_; })) {
      const auto begin = Clock::now();
      try {
        refresh();
      } catch (const Error& error) {  // a run that is being removed
        log::debug("[dashboard] ", error.what());
      }
      pause = std::max<std::chrono::nanoseconds>(std::chrono::seconds(1), 49 * (Clock::now() - begin));
    }
  }

  std::string host_;
  LiveReport report_;
  DashboardPages pages_;
  std::mutex mutex_;
  std::condition_variable ends_;
  bool is_ending_ = false;
  serve::HttpServer server_;
  std::thread thread_;
};

DashboardServer::DashboardServer(std::vector<std::filesystem::path> runs, const serve::HttpOptions& http)
    : impl_(std::make_unique<Impl>(std::move(runs), http)) {}
DashboardServer::~DashboardServer() = default;
std::string DashboardServer::address() const { return impl_->address(); }

}  // namespace easydel

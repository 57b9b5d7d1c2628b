// easydel dashboard: a local page with the curves of training runs, while they go on and afterwards.
#include <CLI/CLI.hpp>
#include <chrono>
#include <csignal>
#include <ctime>
#include <iostream>
#include <memory>
#include <mutex>

#include "easydel/cli/commands.h"
#include "easydel/core/error.h"
#include "easydel/serve/http/http_message.h"
#include "easydel/serve/http/http_server.h"
#include "easydel/serve/server.h"
#include "easydel/trainers/logs/live_report.h"

namespace easydel::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct DashboardOptions {
  std::vector<std::string> runs;
  serve::HttpOptions http = {.port = 8265};
};

// What requests are answered with: made by the main thread, read by the server's.
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
    if (request.method != "GET") return serve::http_error(405, "Only GET is answered here.");
    if (request.path == "/") return {.content_type = "text/html; charset=utf-8", .headers = {}, .body = page_};
    if (request.path == "/favicon.ico") return {.status = 204, .headers = {}, .body = {}};  // browsers ask for one
    if (request.path != "/data") return serve::http_error(404, "There is / and /data.");
    if (request.query == version_) return {.status = 204, .headers = {}, .body = {}};
    return {.headers = {}, .body = data_};
  }

 private:
  mutable std::mutex mutex_;
  std::string page_, data_, version_;
};

// Whether SIGINT or SIGTERM came within this time.
bool is_stopped_within(std::chrono::nanoseconds time) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(time);
  const timespec pause{.tv_sec = seconds.count(), .tv_nsec = (time - seconds).count()};
  return sigtimedwait(&signals, nullptr, &pause) > 0;
}

void run(const DashboardOptions& options) {
  serve::block_stop_signals();
  LiveReport report({options.runs.begin(), options.runs.end()});
  DashboardPages pages;
  auto begin = Clock::now();
  const auto refresh = [&] {
    begin = Clock::now();
    if (report.refresh()) pages.update(report);
  };
  refresh();
  const serve::HttpServer server(options.http, [&](const serve::HttpRequest& request, const serve::HttpReply& reply) {
    reply.send(pages.answer(request));
  });
  std::cout << "listening on http://" << options.http.host << ":" << server.port() << "/" << std::endl;
  // At most two percent of the time, which the runs need themselves.
  while (!is_stopped_within(std::max<std::chrono::nanoseconds>(std::chrono::seconds(1), 49 * (Clock::now() - begin))))
    refresh();
}

}  // namespace

void add_dashboard_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("dashboard", "Show training runs on a local page, while they go on and afterwards");
  auto options = std::make_shared<DashboardOptions>();
  command->add_option("runs", options->runs, "Output directories of runs; the curves of all are in the same charts")
      ->required();
  command->add_option("--host", options->http.host, "Address to listen on; 0.0.0.0: all")->capture_default_str();
  command->add_option("--port", options->http.port, "Port to listen on; 0: any free one")->capture_default_str();
  command->callback([options] { run(*options); });
}

}  // namespace easydel::cli

// easydel dashboard: a local page with the curves of training runs, while they go on and afterwards.
#include <CLI/CLI.hpp>
#include <csignal>
#include <iostream>
#include <memory>

#include "easydel/cli/commands.h"
#include "easydel/serve/server.h"
#include "easydel/trainers/arguments/log_arguments.h"
#include "easydel/trainers/dashboard/dashboard_server.h"

namespace easydel::cli {
namespace {

struct DashboardOptions {
  std::vector<std::string> runs;
  serve::HttpOptions http = {.port = kDashboardPort};
};

void wait_for_stop_signal() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  int signal = 0;
  sigwait(&signals, &signal);
}

void run(const DashboardOptions& options) {
  serve::block_stop_signals();
  const DashboardServer server({options.runs.begin(), options.runs.end()}, options.http);
  std::cout << "listening on " << server.address() << std::endl;
  wait_for_stop_signal();
}

}  // namespace

void add_dashboard_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("dashboard", "Serve a local web page with the curves of training runs, live and afterwards");
  auto options = std::make_shared<DashboardOptions>();
  command->add_option("runs", options->runs, "Output directories of the runs, which are drawn in the same charts")
      ->required();
  command->add_option("--host", options->http.host, "Address to listen on; 0.0.0.0: all interfaces")
      ->capture_default_str();
  command->add_option("--port", options->http.port, "Port to listen on; 0: any free port")->capture_default_str();
  command->callback([options] { run(*options); });
}

}  // namespace easydel::cli

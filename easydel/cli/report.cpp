// easydel report: writes the HTML report of a training run, or a comparison of several.
#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "easydel/cli/commands.h"
#include "easydel/cli/terminal/console.h"
#include "easydel/trainers/logs/metric_columns.h"
#include "easydel/trainers/logs/run_report.h"

namespace easydel::cli {
namespace {

struct ReportOptions {
  std::string run, output;
  std::vector<std::string> others;
};

void run(const ReportOptions& options) {
  const std::vector<std::filesystem::path> others(options.others.begin(), options.others.end());
  const std::filesystem::path path = write_run_report(options.run, others, options.output);
  const MetricColumns metrics = MetricColumns::read(std::filesystem::path(options.run) / "metrics.jsonl");
  const Json summary = summarize_run(read_run_file(options.run), metrics);
  std::vector<std::vector<std::string>> rows;
  for (const auto& [label, value] : summary.as_object()) rows.push_back({label, value.as_string()});
  print_table(rows);
  std::cout << "report: " << path.string() << "\n";
}

}  // namespace

void add_report_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("report", "Write the HTML report of a training run, optionally compared with other runs");
  auto options = std::make_shared<ReportOptions>();
  command->add_option("run", options->run, "Output directory of a run, which may still be running")->required();
  command->add_option("others", options->others, "Output directories of runs to compare it with");
  command->add_option("--output", options->output,
                      "Output file (default: report.html in the run's directory, or comparison.html when comparing)");
  command->callback([options] { run(*options); });
}

}  // namespace easydel::cli

#include "easydel/cli/app.h"

#include <c10/util/Exception.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <iostream>
#include <new>

#include "easydel/cli/commands.h"
#include "easydel/cli/terminal/console.h"
#include "easydel/cli/terminal/help.h"
#include "easydel/core/cpu.h"
#include "easydel/core/error.h"
#include "easydel/core/log.h"
#include "easydel/core/text/quoted.h"

namespace easydel::cli {
namespace {

constexpr int kFailure = 1;
constexpr int kUsage = 2;
constexpr int kBrokenPipe = 128 + SIGPIPE;  // the status a shell reports for a program killed by this signal

std::vector<std::string> subcommand_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(sub->get_name());
  return names;
}

// CLI11 says "The following argument was not expected: dcotor"; suggest what was meant instead.
std::string explain_unknown(const std::vector<std::string>& names, const std::string& word) {
  std::string known;
  for (const std::string& name : names) known += concat(known.empty() ? "" : ", ", name);
  const std::string near = nearest_name(word, names);
  return concat("unknown subcommand \"", word, "\"; known: ", known, ".",
                near.empty() ? "" : concat(" Did you mean \"", near, "\"?"));
}

// The chain of subcommands on the command line, starting with the app.
std::vector<const CLI::App*> levels_of(const CLI::App& app) {
  std::vector<const CLI::App*> levels{&app};
  while (!levels.back()->get_subcommands().empty()) levels.push_back(levels.back()->get_subcommands().front());
  return levels;
}

void print_error(std::string_view message) { std::cerr << "easydel: " << printable(message) << "\n"; }

int usage_error(const CLI::App& app, const std::string& message) {
  print_error(message);
  std::string path;
  for (const CLI::App* level : levels_of(app)) path += (path.empty() ? "" : " ") + level->get_name();
  std::cerr << "Try: " << path << " --help\n";
  return kUsage;
}

// CLI11 lists all leftover words, the last one first; the first one is explained.
std::string explain_extras(const CLI::App& app, const std::string& otherwise) {
  const CLI::App* level = levels_of(app).back();
  const std::vector<std::string> left = level->remaining();
  if (left.empty()) return otherwise;
  const std::string& word = left.front();
  if (!word.starts_with("-")) {
    const std::vector<std::string> names = subcommand_names(*level);
    return names.empty() ? concat("unexpected argument \"", word, "\".") : explain_unknown(names, word);
  }
  std::vector<std::string> known;
  for (const CLI::Option* option : level->get_options()) {
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  }
  const std::string flag = word.substr(0, word.find('='));
  const std::string near = nearest_name(flag, known);
  return concat("unknown option ", flag, ".", near.empty() ? "" : concat(" Did you mean ", near, "?"));
}

}  // namespace

int run(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is a write error, not a silent exit
  std::signal(SIGXFSZ, SIG_IGN);  // and so is the file size limit
  StandardOutput output;
  CLI::App app("Load, shard, train and run large language models, without Python.", "easydel");
  app.set_version_flag(
      "--version", [] { return version_text(); },
      "Print the versions of easydel and torch and the features of this build");
  app.require_subcommand(0, 1);
  app.formatter(help_formatter());  // before the subcommands, which inherit it
  std::string level;
  app.add_option("--log", level, "Log level: debug, info, warning, error or off")->envname("EASYDEL_LOG");
  std::string cpu;
  app.add_option("--cpu", cpu,
                 "CPU kernels to use: baseline, avx2, avx2_vnni, avx512, avx512_vnni or amx (default: the best that "
                 "this machine supports)")
      ->envname("EASYDEL_CPU");
  app.parse_complete_callback([&] {
    try {
      if (!level.empty()) log::set_level(log::parse_level(level));
      if (!cpu.empty()) select_cpu_kind(cpu);
      cpu_kind();                         // an error now rather than in the middle of work
    } catch (const ConfigError& error) {  // it names the known values
      throw UsageError(error.what());
    }
  });
  add_doctor_command(app);
  add_models_command(app);
  add_info_command(app);
  add_inspect_command(app);
  add_convert_command(app);
  add_quantize_command(app);
  add_download_command(app);
  add_forward_command(app);
  add_generate_command(app);
  add_embed_command(app);
  add_classify_command(app);
  add_transcribe_command(app);
  add_chat_command(app);
  add_serve_command(app);
  add_train_command(app);
  add_elarge_command(app);
  add_report_command(app);
  add_dashboard_command(app);
  add_eval_command(app);
  add_lora_command(app);
  add_bench_command(app);
  add_tokenize_command(app);
  add_tokenizer_train_command(app);
  add_demo_command(app);
  app.footer("Every subcommand has --help. EASYDEL_LOG=debug prints more.");

  try {
    const std::vector<std::string> names = subcommand_names(app);
    if (argc > 1 && argv[1][0] != '-' && std::find(names.begin(), names.end(), argv[1]) == names.end()) {
      return usage_error(app, explain_unknown(names, argv[1]));
    }
    int status = 0;
    try {
      app.parse(argc, argv);
    } catch (const ExitStatus& ended) {
      status = ended.value;
    }
    if (app.get_subcommands().empty()) std::cout << app.help();
    output.flush();
    return status;
  } catch (const CLI::Success& done) {  // --help, --version
    const int code = app.exit(done);
    try {
      output.flush();
    } catch (const BrokenPipe&) {
      return kBrokenPipe;
    }
    return code;
  } catch (const CLI::ExtrasError& error) {
    return usage_error(app, explain_extras(app, error.what()));
  } catch (const CLI::RequiredError& error) {  // the missing option may have been misspelled
    return usage_error(app, explain_extras(app, error.what()));
  } catch (const CLI::ParseError& error) {
    return usage_error(app, error.what());
  } catch (const UsageError& error) {
    return usage_error(app, error.what());
  } catch (const BrokenPipe&) {
    return kBrokenPipe;
  } catch (const Error& error) {
    print_error(error.what());
  } catch (const c10::Error& error) {  // torch's error, without the stack trace
    print_error(error.what_without_backtrace());
  } catch (const std::bad_alloc&) {
    print_error("out of memory");
  } catch (const std::exception& error) {
    print_error(error.what());
  }
  return kFailure;
}

}  // namespace easydel::cli

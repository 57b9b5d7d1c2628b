// easydel serve: a model behind an OpenAI-compatible HTTP server.
#include <CLI/CLI.hpp>
#include <cstdlib>
#include <iostream>

#include "easydel/cli/commands.h"
#include "easydel/cli/options/model_options.h"
#include "easydel/cli/terminal/console.h"
#include "easydel/cli/terminal/help.h"
#include "easydel/cli/terminal/text.h"
#include "easydel/core/build_info.h"
#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/core/log.h"
#include "easydel/serve/server.h"

namespace easydel::cli {
namespace {

struct ServeArguments {
  ModelOptions model;
  serve::ServerOptions server;
  std::vector<std::string> adapters;  // NAME=DIR
  std::string chat_template, draft_model;
  bool no_prefix_caching = false, no_chunked_prefill = false, no_graphs = false, no_page = false;
  double request_timeout = 0, shutdown_timeout = 30;
  int64_t max_body_mib = 16;
};

std::pair<std::string, std::string> named_adapter(const std::string& text) {
  const std::size_t sign = text.find('=');
  require<UsageError>(sign != std::string::npos && sign > 0 && sign + 1 < text.size(),
                      "--adapter takes NAME=DIR; got \"", text, "\".");
  return {text.substr(0, sign), text.substr(sign + 1)};
}

std::chrono::milliseconds milliseconds_of(double seconds, const char* flag) {
  require<UsageError>(seconds >= 0 && seconds < 1e9, flag, " takes seconds, 0 or more; got ", seconds, ".");
  return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
}

serve::ServerOptions to_server_options(const ServeArguments& given) {
  serve::ServerOptions options = given.server;
  if (options.service.served_model_names.empty()) options.service.served_model_names = {given.model.model};
  options.service.model_root = given.model.model;
  options.service.version = EASYDEL_VERSION;
  options.service.enable_page = !given.no_page;
  options.service.request_timeout = milliseconds_of(given.request_timeout, "--request-timeout");
  options.shutdown_timeout = milliseconds_of(given.shutdown_timeout, "--shutdown-timeout");
  if (!given.chat_template.empty()) options.service.chat_template = read_file(given.chat_template);
  if (const char* key = std::getenv("EASYDEL_API_KEY"); key && *key) options.service.api_keys.emplace_back(key);
  for (const std::string& text : given.adapters) options.adapters.push_back(named_adapter(text));
  require<UsageError>(given.max_body_mib > 0 && given.max_body_mib <= 4096,
                      "--max-body-mib must be from 1 to 4096; got ", given.max_body_mib, ".");
  options.http.max_body_bytes = given.max_body_mib << 20;
  require<UsageError>(options.http.tls_cert.empty() == options.http.tls_key.empty(),
                      "--tls-cert and --tls-key must be given together.");
  options.engine.enable_prefix_caching = !given.no_prefix_caching;
  options.engine.enable_chunked_prefill = !given.no_chunked_prefill;
  options.engine.use_graphs = !given.no_graphs;
  if (!given.draft_model.empty()) {
    ModelOptions draft = given.model;
    draft.model = given.draft_model;
    options.engine.draft_model = load(draft);
    options.engine.speculative_method = "draft";
    if (options.engine.num_speculative_tokens == 0) options.engine.num_speculative_tokens = 4;
  }
  return options;
}

// What would be ignored beside the other flags, or on this device.
void refuse_idle_flags(const CLI::App& command, const ServeArguments& given) {
  const auto is_given = [&](const char* flag) { return command.get_option(flag)->count() > 0; };
  const serve::EngineOptions& engine = given.server.engine;
  const at::Device device = to_compute_settings(given.model).device;
  require<UsageError>(!given.no_graphs || device.is_cuda(), "--no-graphs applies only to CUDA graphs; got the device ",
                      device.str(), ". Leave it out, or use --device cuda.");
  require<UsageError>(!is_given("--gpu-memory-utilization") || engine.num_pages == 0,
                      "--gpu-memory-utilization determines the number of pages; got --num-pages ", engine.num_pages,
                      ". Leave one of them out.");
}

void run(const ServeArguments& given, const AutoTokenizer& tokenizer, World& world) {
  const std::shared_ptr<BaseModule> model = load(given.model);
  serve::ServerOptions options = to_server_options(given);
  if (world.rank() != 0) {
    const auto engine = serve::make_engine(model, tokenizer.shared(), options.engine);
    while (!engine->drain(std::chrono::hours(1))) continue;
    return;
  }
  options.service.default_sampling = serve::default_sampling(*model);
  const HubOptions hub{.revision = given.model.revision};
  serve::Server server(model, tokenizer, std::move(options), serve::load_vision(*model, given.model.model, hub),
                       serve::load_feature_extractor(*model, given.model.model, hub));
  std::cout << "listening on " << server.address() << std::endl;
  if (!serve::serve_until_stopped(server)) throw ExitStatus{1};
}

void add_engine_options(CLI::App& command, ServeArguments& given) {
  serve::EngineOptions& engine = given.server.engine;
  auto* group = command.add_option_group("Engine");
  group->add_option("--max-num-seqs", engine.max_num_seqs, "Maximum number of concurrent sequences")
      ->capture_default_str();
  group->add_option("--max-num-batched-tokens", engine.max_num_batched_tokens,
                    "Maximum number of tokens per step (default: 8192 on a GPU, 512 on a CPU)");
  group->add_option("--max-model-len", engine.max_model_len,
                    "Maximum length of a prompt and its answer in tokens (default: the model's context)");
  group->add_option("--max-waiting", engine.max_waiting,
                    "Maximum number of waiting requests; further ones get status 429 (default: unlimited)");
  group
      ->add_option("--gpu-memory-utilization", engine.gpu_memory_utilization,
                   "Fraction of the free memory to use for the KV cache; on a CPU at most 4 GiB")
      ->capture_default_str();
  group->add_option("--page-size", engine.page_size, "Tokens per page of the KV cache")->capture_default_str();
  group->add_option("--num-pages", engine.num_pages,
                    "Number of pages of the KV cache (default: as --gpu-memory-utilization allows)");
  group->add_option("--kv-cache-dtype", engine.kv_cache_dtype, "Dtype of the KV cache: auto, int8, fp8, bf16, …")
      ->capture_default_str();
  group->add_flag("--no-prefix-caching", given.no_prefix_caching, "Disable prefix caching");
  group->add_flag("--no-chunked-prefill", given.no_chunked_prefill,
                  "Disable chunked prefill: process a prompt in one step if it fits");
  group->add_flag("--no-graphs", given.no_graphs, "Disable CUDA graphs for decode steps");
  group->add_flag("--async-scheduling", engine.async_scheduling,
                  "Schedule each step before the tokens of the previous one are known");
  group->add_option(
      "--speculative-tokens", engine.num_speculative_tokens,
      "Speculative decoding: number of draft tokens, by n-gram lookup unless --draft-model is given (default: none)");
  group->add_option("--ngram-max", engine.ngram_max,
                    "Longest n-gram to look up in n-gram speculation, in tokens (default: 4)");
  group->add_option("--ngram-min", engine.ngram_min,
                    "Shortest n-gram to look up in n-gram speculation, in tokens (default: 1)");
  group->add_option("--draft-model", given.draft_model,
                    "Draft model for speculative decoding, with the same vocabulary; proposes 4 tokens by default");
  group
      ->add_option("--adapter", given.adapters,
                   "LoRA adapter that requests select by using its name as the model; can be repeated")
      ->type_name("NAME=DIR")
      ->allow_extra_args(false);
  group
      ->add_option("--data-parallel-size", given.server.data_parallel_size,
                   "Number of engines that share the requests, each with its own KV cache")
      ->capture_default_str();
  group->add_option("--seed", engine.seed, "Random seed of requests without one")->capture_default_str();
}

void add_server_options(CLI::App& command, ServeArguments& given) {
  serve::HttpOptions& http = given.server.http;
  serve::ServiceOptions& service = given.server.service;
  service.served_model_names.clear();
  auto* group = command.add_option_group("Server");
  group->add_option("--host", http.host, "Address to listen on; 0.0.0.0: all interfaces")->capture_default_str();
  group->add_option("--port", http.port, "Port to listen on; 0: any free port")->capture_default_str();
  group
      ->add_option("--api-key", service.api_keys,
                   "API key that requests must send; can be repeated. EASYDEL_API_KEY keeps it off the command line")
      ->allow_extra_args(false);
  group->add_option("--tls-cert", http.tls_cert, "Certificate chain for HTTPS (PEM file)");
  group->add_option("--tls-key", http.tls_key, "Private key of the certificate (PEM file)");
  group->add_option("--cors-origin", http.cors_origins, "Allowed CORS origin; *: any origin. Can be repeated")
      ->allow_extra_args(false);
  group
      ->add_option("--served-model-name", service.served_model_names,
                   "Name of the model in the API; can be repeated (default: MODEL)")
      ->allow_extra_args(false);
  group->add_option("--chat-template", given.chat_template, "File with a chat template to use instead of the model's");
  group->add_flag("--trust-request-chat-template", service.trust_request_chat_template,
                  "Let requests supply their own chat template");
  group
      ->add_option("--allowed-local-media-path", service.allowed_local_media_path,
                   "Directory whose files requests may use as images, with file:// URLs (default: data URIs only)")
      ->type_name("DIR");
  group
      ->add_option("--allowed-media-domains", service.allowed_media_domains,
                   "Host from which requests may have images fetched, with http and https URLs; *: any host with a "
                   "public address. Can be repeated (default: none)")
      ->type_name("HOST")
      ->allow_extra_args(false);
  group->add_option("--tool-parser", service.tool_parser, "Format of tool calls; auto: detected from the chat template")
      ->capture_default_str();
  group
      ->add_option("--reasoning-parser", service.reasoning_parser,
                   "Format of reasoning; auto: detected from the chat template")
      ->capture_default_str();
  group->add_option("--max-connections", http.max_connections, "Maximum number of connections")->capture_default_str();
  group->add_option("--max-body-mib", given.max_body_mib, "Maximum size of a request in MiB")->capture_default_str();
  group->add_option("--request-timeout", given.request_timeout,
                    "Maximum time for an answer in seconds (default: unlimited)");
  group
      ->add_option("--shutdown-timeout", given.shutdown_timeout,
                   "Seconds that running requests have to finish after SIGTERM or Ctrl-C")
      ->capture_default_str();
  group->add_flag("--no-page", given.no_page, "Do not serve the chat page and the dashboard");
}

}  // namespace

void add_serve_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("serve", "Serve a model over HTTP with an OpenAI-compatible API and a chat page");
  auto given = std::make_shared<ServeArguments>();
  add_model_options(*command, given->model);
  add_server_options(*command, *given);
  add_engine_options(*command, *given);
  command->footer(help_examples({"serve Qwen/Qwen3-0.6B --port 8000", "serve MODEL --quantize int4 --api-key KEY",
                                 "serve MODEL --draft-model SMALLER_MODEL --speculative-tokens 4"}));
  command->callback([command, given] {
    refuse_idle_flags(*command, *given);
    serve::block_stop_signals();
    const std::optional<AutoTokenizer> tokenizer = load_tokenizer(given->model);
    require<ConfigError>(tokenizer.has_value(), "[easydel serve] ", given->model.model,
                         " has no tokenizer.json or tokenizer.model.");
    on_ranks(given->model, [&](World& world) { run(*given, *tokenizer, world); });
  });
}

}  // namespace easydel::cli

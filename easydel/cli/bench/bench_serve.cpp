// easydel bench serve: a load generator for OpenAI-compatible servers, with the measures of vLLM's `bench serve`.
#include "easydel/cli/bench/bench_serve.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <iostream>

#include "easydel/cli/commands.h"
#include "easydel/cli/terminal/console.h"
#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/core/json/strict_json.h"
#include "easydel/core/log.h"
#include "easydel/core/progress/progress.h"
#include "easydel/io/hub/http.h"
#include "easydel/serve/client/engine_load.h"
#include "easydel/serve/client/http_load.h"
#include "easydel/serve/client/load_report.h"
#include "easydel/serve/engine/engine.h"
#include "easydel/tokenizers/auto_tokenizer.h"

namespace easydel::cli {
namespace {

constexpr int64_t kFallbackVocabulary = 1000;           // ids that practically every vocabulary has
constexpr uint64_t kWarmupStream = 0x9e3779b97f4a7c15;  // warm-up prompts are none of those that are timed

std::string server_url(const BenchServeOptions& options) {
  std::string url = options.base_url;
  if (url.empty()) url = concat("http://", options.host, ":", options.port);
  while (url.ends_with('/')) url.pop_back();
  return url;
}

HttpResponse ask_server(const BenchServeOptions& options, const std::string& path, const Json& body = {}) {
  HttpClient client({.user_agent = "easydel", .token = options.api_key, .trusted_url = server_url(options)});
  HttpRequest request{.url = server_url(options) + path};
  if (!body.is_null()) {
    request.method = "POST";
    request.headers = {"Content-Type: application/json"};
    request.body = body.dump();
  }
  return client.send(request);
}

std::string first_model(const BenchServeOptions& options) {
  const HttpResponse response = ask_server(options, "/v1/models");
  require<IoError>(response.ok(), "[easydel bench serve] ", response.url, " returned status ", response.status,
                   ". Set the model's name with --model.");
  const Json answer = Json::parse(response.body, {.where = response.url});
  const Json* models = answer.find("data");
  require<FormatError>(models && models->is_array() && models->size() > 0, "[easydel bench serve] ", response.url,
                       " lists no models. Set the model's name with --model.");
  return models->at(std::size_t{0}).at("id").as_string();
}

// A server tells no size of its vocabulary, so it is asked for the ids of a text with many kinds of characters: all ids
// up to the largest one exist.
int64_t server_vocabulary(const BenchServeOptions& options) {
  const char* text =
      "The quick brown fox, 12345 + 67890 = 80235; naïve café, Übergröße, Привет, 你好世界, こんにちは, "
      "مرحبا, 🙂 void main() { return extraordinarily(incomprehensible); }";
  const HttpResponse response =
      ask_server(options, "/tokenize", Json::object({{"model", options.model_name}, {"prompt", text}}));
  if (!response.ok()) return kFallbackVocabulary;
  const Json answer = Json::parse(response.body, {.where = response.url});
  const Json* tokens = answer.find("tokens");
  int64_t largest = 0;
  if (tokens && tokens->is_array()) {
    for (const Json& id : tokens->as_array()) largest = std::max(largest, id.as_int());
  }
  return largest > 0 ? largest + 1 : kFallbackVocabulary;
}

std::map<std::string, double> parse_goodput(const std::vector<std::string>& words) {
  std::map<std::string, double> limits;
  for (const std::string& word : words) {
    const std::size_t colon = word.find(':');
    const std::string name = word.substr(0, colon);
    double limit = -1;
    try {
      if (colon != word.npos) limit = std::stod(word.substr(colon + 1));
    } catch (const std::exception&) {
      limit = -1;
    }
    require<UsageError>((name == "ttft" || name == "tpot" || name == "e2el") && limit >= 0,
                        "--goodput takes ttft:MS, tpot:MS and e2el:MS; got \"", word, "\".");
    limits[name] = limit;
  }
  return limits;
}

// What is accepted acts: an option that has nothing to do here is refused by name.
void check_bench_serve(const CLI::App& command, const BenchServeOptions& options) {
  const auto refuse = [&](std::initializer_list<const char*> names, const std::string& reason) {
    for (const char* name : names) require<UsageError>(command.count(name) == 0, name, " ", reason, " Leave it out.");
  };
  if (options.in_process) {
    refuse({"--base-url", "--host", "--port", "--model", "--endpoint", "--api-key"},
           "applies only to a server, and --in-process uses none.");
    require<UsageError>(options.model.empty() != options.config.empty(),
                        "--in-process needs a MODEL, or --config FILE for random weights.");
  } else {
    require<UsageError>(options.model.empty(), "MODEL is used only with --in-process; got ", options.model,
                        ". Select a model of the server with --model.");
    refuse({"--config", "--dtype", "--device", "--quantize", "--max-num-seqs", "--max-num-batched-tokens",
            "--no-prefix-caching"},
           "applies only to the engine of --in-process.");
  }
  if (!options.base_url.empty()) refuse({"--host", "--port"}, "is already part of --base-url.");
  if (options.is_random()) {
    refuse({"--custom-output-len"}, "applies only to prompts from a file; --dataset is random.");
    const bool is_chat = options.endpoint.ends_with("/chat/completions");
    require<UsageError>(!is_chat || !options.tokenizer.empty(), "--endpoint ", options.endpoint,
                        " takes text, but random prompts are token ids. Use --tokenizer DIR or --dataset FILE.");
    require<UsageError>(options.vocab_size == 0 || options.tokenizer.empty(),
                        "--vocab-size is already determined by --tokenizer. Leave one of them out.");
  } else {
    refuse({"--random-input-len", "--random-output-len", "--random-prefix-len", "--random-range-ratio", "--vocab-size"},
           "applies only to random prompts; --dataset is a file.");
    require<UsageError>(
        options.in_process || options.tokenizer.empty(),
        "--tokenizer applies only to random prompts; the server tokenizes those of --dataset itself. Leave it out.");
  }
  if (std::isinf(options.request_rate))
    refuse({"--burstiness"}, "applies only with a finite --request-rate; now all requests are sent at once.");
}

std::vector<serve::LoadRequest> make_requests(const BenchServeOptions& options, const Tokenizer* tokenizer,
                                              int64_t count, uint64_t seed) {
  std::vector<serve::LoadRequest> requests;
  if (!options.is_random()) {
    requests = serve::file_requests(options.dataset, count, options.file_output_len);
    if (!options.in_process) return requests;
    const bool all_ids = std::all_of(requests.begin(), requests.end(), [](const auto& r) { return !r.ids.empty(); });
    require<ConfigError>(tokenizer || all_ids, "[easydel bench serve] there is no tokenizer to encode ",
                         options.dataset, " with. Use --tokenizer DIR.");
    if (!all_ids) serve::encode_prompts(requests, *tokenizer);
    return requests;
  }
  requests = serve::random_requests({.count = count,
                                     .input_len = options.input_len,
                                     .output_len = options.output_len,
                                     .prefix_len = options.prefix_len,
                                     .range_ratio = options.range_ratio,
                                     .vocab_size = options.vocab_size,
                                     .seed = seed});
  if (options.endpoint.ends_with("/chat/completions")) serve::decode_prompts(requests, *tokenizer);
  return requests;
}

// Not timed: code and caches are warm afterwards, and arguments that a server refuses are found out at once.
void warm_up(serve::LoadTarget& target, const BenchServeOptions& options, const Tokenizer* tokenizer) {
  if (options.num_warmups == 0) return;
  const auto requests = make_requests(options, tokenizer, options.num_warmups, options.seed ^ kWarmupStream);
  const serve::LoadRun run = serve::run_load(target, requests, {.max_concurrency = 1});
  for (const serve::LoadRecord& record : run.records)
    require<IoError>(record.success, "[easydel bench serve] a warmup request failed: ", record.error);
}

// What was asked for, as the report repeats it.
Json describe_bench(const BenchServeOptions& options, const BenchEngine& engine) {
  Json about = Json::object({{"backend", options.in_process ? "in-process" : "openai"},
                             {"model", options.in_process ? options.model : options.model_name},
                             {"dataset", options.dataset},
                             {"num_prompts", options.num_prompts},
                             {"num_warmups", options.num_warmups},
                             {"temperature", options.temperature},
                             {"ignore_eos", options.ignore_eos},
                             {"seed", options.seed},
                             {"burstiness", options.burstiness},
                             {"request_rate", "inf"}});
  if (!std::isinf(options.request_rate)) about["request_rate"] = options.request_rate;
  if (options.max_concurrency > 0) about["max_concurrency"] = options.max_concurrency;
  if (options.is_random()) about["vocab_size"] = options.vocab_size;
  if (!options.in_process) {
    about["endpoint"] = options.endpoint;
    return about;
  }
  for (const auto& [key, value] : engine.about.as_object()) about[key] = value;
  return about;
}

std::unique_ptr<serve::LoadTarget> make_target(const BenchServeOptions& options, const BenchEngine& engine) {
  if (options.in_process)
    return std::make_unique<serve::EngineLoad>(
        engine.engine, serve::EngineLoadOptions{.temperature = options.temperature, .ignore_eos = options.ignore_eos});
  return std::make_unique<serve::HttpLoad>(serve::HttpLoadOptions{.base_url = server_url(options),
                                                                  .endpoint = options.endpoint,
                                                                  .model = options.model_name,
                                                                  .api_key = options.api_key,
                                                                  .temperature = options.temperature,
                                                                  .ignore_eos = options.ignore_eos});
}

void tell_failures(const serve::LoadRun& run, const serve::LoadSummary& summary) {
  if (summary.failed == 0) return;
  const auto first = std::find_if(run.records.begin(), run.records.end(), [](const auto& r) { return !r.success; });
  require<IoError>(summary.completed > 0, "[easydel bench serve] all ", summary.failed,
                   " requests failed; the first error: ", first->error);
  log::warning(summary.failed, " requests failed; the first error: ", first->error);
}

void run(BenchServeOptions options) {
  const serve::LoadReportOptions report{
      .metrics = options.metrics, .percentiles = options.percentiles, .goodput = parse_goodput(options.goodput)};
  BenchEngine engine;
  std::shared_ptr<const Tokenizer> tokenizer;
  if (!options.tokenizer.empty()) tokenizer = AutoTokenizer::from_pretrained(options.tokenizer).shared();
  if (options.in_process) {
    engine = make_bench_engine(options);
    if (!tokenizer) tokenizer = engine.tokenizer;
  } else if (options.model_name.empty()) {
    options.model_name = first_model(options);
  }
  if (options.is_random() && options.vocab_size == 0) {
    options.vocab_size = options.in_process           ? engine.vocab_size
                         : !options.tokenizer.empty() ? tokenizer->vocab_size()
                                                      : server_vocabulary(options);
  }
  const auto requests = make_requests(options, tokenizer.get(), options.num_prompts, options.seed);
  const std::unique_ptr<serve::LoadTarget> target = make_target(options, engine);
  warm_up(*target, options, tokenizer.get());

  Progress progress("requests", {.total = options.num_prompts, .unit = "req"});
  serve::LoadRunOptions how;
  how.arrivals = {.rate = options.request_rate, .burstiness = options.burstiness, .seed = options.seed};
  if (options.max_concurrency > 0) how.max_concurrency = options.max_concurrency;
  how.on_done = [&](int64_t count) { progress.advance(count); };
  const serve::LoadRun measured = serve::run_load(*target, requests, how);
  progress.finish();

  const serve::LoadSummary summary = serve::summarize(measured, report);
  const Json about = describe_bench(options, engine);
  const auto with_about = [&](Json results) {
    Json all = about;
    for (const auto& [key, value] : results.as_object()) all[key] = value;
    return all;
  };
  if (!options.save_result.empty())
    write_file_atomically(options.save_result, dump_strict(with_about(serve::load_json(summary, measured)), 2) + "\n");
  tell_failures(measured, summary);
  if (options.json) return print_json(with_about(serve::load_json(summary)));
  std::cout << serve::load_table(summary);
}

void add_target_options(CLI::App& command, BenchServeOptions& options) {
  command.add_option("MODEL", options.model, "For --in-process: a model directory or a model on the Hub");
  command.add_option("--base-url", options.base_url,
                     "URL of the server without the endpoint, such as http://127.0.0.1:8000");
  command.add_option("--host", options.host, "Host of the server")->capture_default_str();
  command.add_option("--port", options.port, "Port of the server")->check(CLI::Range(1, 65535))->capture_default_str();
  command.add_option("--model", options.model_name,
                     "Name of the model on the server (default: the first of /v1/models)");
  command.add_option("--endpoint", options.endpoint, "/v1/completions or /v1/chat/completions")->capture_default_str();
  command.add_option("--api-key", options.api_key, "Sent as a bearer token");
  command.add_flag("--in-process", options.in_process, "Run the engine in this process instead of using a server");
  command.add_option("--config", options.config,
                     "For --in-process: a config.json, for random weights instead of MODEL");
  command.add_option("--dtype", options.dtype,
                     "For --in-process: dtype of weights and computation (default: bf16 on a GPU, fp32 on a CPU)");
  command.add_option("--device", options.device, "For --in-process: cpu, cuda or cuda:1 (default: a GPU if available)");
  command.add_option("--quantize", options.quantize, "For --in-process: 8bit, nf4, int4 or a8q")->type_name("METHOD");
  command
      .add_option("--max-num-seqs", options.max_num_seqs, "For --in-process: maximum number of concurrent sequences")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command
      .add_option("--max-num-batched-tokens", options.max_num_batched_tokens,
                  "For --in-process: maximum number of tokens per step (default: 8192 on a GPU, 512 on a CPU)")
      ->check(CLI::PositiveNumber);
  command.add_flag("!--no-prefix-caching", options.prefix_caching, "For --in-process: disable prefix caching");
}

void add_workload_options(CLI::App& command, BenchServeOptions& options) {
  const auto size = [&](const char* name, int64_t& value, const char* help) {
    command.add_option(name, value, help)->check(CLI::PositiveNumber)->capture_default_str();
  };
  command
      .add_option("--dataset", options.dataset,
                  "random, or a JSONL file with \"prompt\" or \"messages\" and optionally \"output_tokens\"")
      ->capture_default_str();
  size("--num-prompts", options.num_prompts, "Number of requests");
  command.add_option("--num-warmups", options.num_warmups, "Number of warmup requests, sent one at a time")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  size("--random-input-len", options.input_len, "Tokens per random prompt");
  size("--random-output-len", options.output_len, "Tokens to generate for each random prompt");
  command
      .add_option("--random-prefix-len", options.prefix_len,
                  "Tokens of a prefix shared by all random prompts, in addition to --random-input-len")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command
      .add_option("--random-range-ratio", options.range_ratio,
                  "Draw input and output lengths uniformly between (1 - R) and (1 + R) times the values above")
      ->check(CLI::Range(0.0, 0.999))
      ->capture_default_str();
  size("--custom-output-len", options.file_output_len, "Tokens to generate for rows of the file without output_tokens");
  command.add_option("--tokenizer", options.tokenizer, "Directory of the tokenizer for random prompts")
      ->type_name("DIR");
  command
      .add_option("--vocab-size", options.vocab_size,
                  "Random token ids are below this (default: the size of the tokenizer's vocabulary)")
      ->check(CLI::PositiveNumber);
  command
      .add_option("--request-rate", options.request_rate,
                  "Requests per second, with random arrival times; inf: all at once")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command
      .add_option(
          "--burstiness", options.burstiness,
          "Shape of the gamma distribution of the intervals between requests; 1: a Poisson process, below 1: burstier")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command
      .add_option("--max-concurrency", options.max_concurrency,
                  "Maximum number of concurrent requests (default: unlimited)")
      ->check(CLI::PositiveNumber);
  command.add_flag("--ignore-eos", options.ignore_eos,
                   "Ignore end-of-sequence tokens, so that every answer has the requested length");
  command.add_option("--temperature", options.temperature, "Sampling temperature; 0: greedy")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command.add_option("--seed", options.seed, "Random seed of the prompts and arrival times")->capture_default_str();
}

void add_report_options(CLI::App& command, BenchServeOptions& options) {
  command
      .add_option("--goodput", options.goodput,
                  "Report goodput: the requests that meet these latency limits in milliseconds, ttft:MS, tpot:MS or "
                  "e2el:MS")
      ->type_name("LIMIT");
  command.add_option("--percentile-metrics", options.metrics, "Metrics to report: ttft, tpot, itl, e2el")
      ->delimiter(',')
      ->check(CLI::IsMember({"ttft", "tpot", "itl", "e2el"}))
      ->capture_default_str();
  command.add_option("--metric-percentiles", options.percentiles, "Percentiles to report for each metric")
      ->delimiter(',')
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str();
  command.add_option("--save-result", options.save_result, "Write a JSON file, with the times of each request")
      ->type_name("FILE");
  command.add_flag("--json", options.json, "Print JSON");
}

}  // namespace

void add_bench_serve_command(CLI::App& bench) {
  CLI::App* command =
      bench.add_subcommand("serve", "Measure a server under load, with the metrics of vllm bench serve");
  auto options = std::make_shared<BenchServeOptions>();
  add_target_options(*command, *options);
  add_workload_options(*command, *options);
  add_report_options(*command, *options);
  command->callback([command, options] {
    check_bench_serve(*command, *options);
    run(*options);
  });
}

}  // namespace easydel::cli

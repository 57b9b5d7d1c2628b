#include "easydel/serve/server.h"

#include <csignal>
#include <ctime>

#include "easydel/core/log.h"
#include "easydel/generation/generate.h"
#include "easydel/infra/base_module.h"
#include "easydel/infra/decoder/accepts_images.h"
#include "easydel/processors/feature_extractor.h"
#include "easydel/processors/vision_processor.h"
#include "easydel/serve/engine/generation_params.h"
#include "easydel/serve/engine/replicas.h"
#include "easydel/serve/grammar/grammar.h"
#include "easydel/serve/speech/speech_engine.h"

namespace easydel::serve {
namespace {

constexpr auto kServerLastStep = std::chrono::seconds(60);  // in which a step ends, and with it what was cancelled

sigset_t stop_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  return signals;
}

std::shared_ptr<Engine> make_engines(const std::shared_ptr<BaseModule>& model, const AutoTokenizer& tokenizer,
                                     const std::shared_ptr<const WhisperFeatureExtractor>& hearing,
                                     const ServerOptions& options) {
  require<ConfigError>(options.data_parallel_size > 0, "[serve] data_parallel_size must be positive; got ",
                       options.data_parallel_size, ".");
  require<NotSupportedError>(options.data_parallel_size == 1 || !model->parallel(),
                             "[serve] data_parallel_size is not supported with a mesh.");
  if (is_speech_model(*model)) {
    require<NotSupportedError>(options.data_parallel_size == 1,
                               "[serve] data_parallel_size is not supported with a speech model; got ",
                               options.data_parallel_size, ".");
    return make_speech_engine(model, tokenizer.shared(), hearing, options.engine);
  }
  EngineOptions engine = options.engine;
  if (!engine.grammar && model->can_generate())
    engine.grammar = make_grammar_compiler(tokenizer.shared(), model->config().vocab_size, end_tokens_of(*model));
  // All caches at once have the share of the memory that one would have.
  engine.gpu_memory_utilization /= static_cast<double>(options.data_parallel_size);
  std::vector<std::shared_ptr<Engine>> engines;
  for (int64_t i = 0; i < options.data_parallel_size; ++i) {
    engines.push_back(make_engine(model, tokenizer.shared(), engine));
    ++engine.seed;  // engines count their requests from 1: two answers to one request must not be drawn alike
  }
  return engines.size() == 1 ? engines.front() : make_replicas(std::move(engines));
}

}  // namespace

SamplingParams default_sampling(const BaseModule& model) {
  SamplingParams sampling;
  if (!model.can_generate()) return sampling;
  const GenerationConfig config = generation_config(model);
  sampling.temperature = config.temperature.value_or(sampling.temperature);
  sampling.top_k = config.top_k.value_or(sampling.top_k);
  sampling.top_p = config.top_p.value_or(sampling.top_p);
  sampling.min_p = config.min_p.value_or(sampling.min_p);
  sampling.typical_p = config.typical_p.value_or(sampling.typical_p);
  sampling.repetition_penalty = config.repetition_penalty.value_or(sampling.repetition_penalty);
  return sampling;
}

std::shared_ptr<const VisionProcessor> load_vision(const BaseModule& model, const std::string& name_or_path,
                                                   const HubOptions& hub) {
  if (dynamic_cast<const AcceptsImages*>(&model) == nullptr) return nullptr;
  const std::filesystem::path directory = resolve(name_or_path, hub);
  if (VisionProcessor::is_in(directory))
    return std::make_shared<const VisionProcessor>(VisionProcessor::from_directory(directory));
  log::warning("[serve] ", directory.string(), " has no processor_config.json: images cannot be prepared.");
  return nullptr;
}

std::shared_ptr<const WhisperFeatureExtractor> load_feature_extractor(const BaseModule& model,
                                                                      const std::string& name_or_path,
                                                                      const HubOptions& hub) {
  if (!is_speech_model(model)) return nullptr;
  return std::make_shared<const WhisperFeatureExtractor>(AutoFeatureExtractor::from_pretrained(name_or_path, hub));
}

Server::Server(const std::shared_ptr<BaseModule>& model, const AutoTokenizer& tokenizer, ServerOptions options,
               std::shared_ptr<const VisionProcessor> vision, std::shared_ptr<const WhisperFeatureExtractor> hearing)
    : options_(std::move(options)), engine_(make_engines(model, tokenizer, hearing, options_)) {
  const EngineStats stats = engine_->stats();
  const EngineInfo& info = engine_->info();
  if (stats.pages > 0)
    log::info("[serve] a cache of ", stats.pages, " pages of ", options_.engine.page_size, " tokens of ",
              info.cache_dtype, "; at most ", info.max_num_seqs, " sequences of ", info.max_model_len,
              " tokens at once.");
  for (const auto& [name, directory] : options_.adapters) engine_->load_adapter(name, directory);
  service_ = std::make_unique<Service>(engine_, tokenizer, options_.service, std::move(vision));
  http_ = std::make_unique<HttpServer>(options_.http, [this](HttpRequest request, HttpReply reply) {
    service_->handle(std::move(request), std::move(reply));
  });
  const bool is_secure = !options_.http.tls_cert.empty();
  const bool is_ipv6 = options_.http.host.find(':') != std::string::npos;
  address_ = concat(is_secure ? "https://" : "http://", is_ipv6 ? "[" : "", options_.http.host, is_ipv6 ? "]" : "", ":",
                    http_->port());
}

Server::~Server() {
  close();
  service_.reset();
}

// Without their connections requests are cancelled. They hold the engine until they have ended, so it must not go
// before: its own thread would be the last to hold it.
void Server::close() {
  http_.reset();
  engine_->drain(kServerLastStep);
}

std::string Server::address() const { return address_; }

bool Server::is_healthy() const { return engine_->stats().healthy; }

bool Server::stop() {
  http_->stop(options_.shutdown_timeout);
  const bool all_ended = engine_->drain(std::chrono::milliseconds(100));
  close();
  return all_ended;
}

void block_stop_signals() {
  const sigset_t signals = stop_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

bool serve_until_stopped(Server& server) {
  const sigset_t signals = stop_signals();
  const timespec pause{.tv_sec = 0, .tv_nsec = 200'000'000};
  while (server.is_healthy()) {
    const int signal = sigtimedwait(&signals, nullptr, &pause);
    if (signal <= 0) continue;
    log::info("[serve] stopping: waiting for running requests. Interrupt again to stop immediately.");
    // A second signal ends the process as usual.
    pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
    if (!server.stop()) log::warning("[serve] some requests were still running and were aborted.");
    return true;
  }
  return false;
}

}  // namespace easydel::serve

// The engine: many sequences at once through one model. The server, evaluation, chat and rollouts all use it.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "easydel/core/error.h"
#include "easydel/serve/engine/request.h"

namespace easydel {
class BaseModule;
class Tokenizer;
}  // namespace easydel

namespace easydel::serve {

class GrammarCompiler;

struct EngineOptions {
  int64_t max_num_seqs = 256;           // sequences that run at once
  int64_t max_num_batched_tokens = 0;   // of one step; 0: 8192 on a GPU, 512 on the CPU
  int64_t max_model_len = 0;            // prompt and answer of a request; 0: the model's context
  int64_t page_size = 16;               // tokens of a page of the cache
  int64_t num_pages = 0;                // 0: by gpu_memory_utilization
  double gpu_memory_utilization = 0.9;  // of the memory that is free once the model is loaded
  std::string kv_cache_dtype = "auto";  // auto, int8, fp8 or a floating type
  bool enable_prefix_caching = true;
  bool enable_chunked_prefill = true;        // long prompts are computed in pieces, beside the next tokens of others
  int64_t max_waiting = 0;                   // requests that may wait; 0: any number
  int64_t num_speculative_tokens = 0;        // 0: no speculation
  std::string speculative_method = "ngram";  // ngram, or draft with a draft model
  std::shared_ptr<BaseModule> draft_model = {};
  // Tokens at the end that ngram looks for earlier in the sequence; absent: 4 at most, 1 at least. Refused without it.
  std::optional<int64_t> ngram_max = {}, ngram_min = {};
  bool use_graphs = true;  // CUDA graphs of decode steps
  // Each step is planned and started before the tokens of the last one are known. Steps that must know them wait: those
  // with a grammar, penalties or top log-probabilities. Not with speculation, nor with several ranks.
  bool async_scheduling = false;
  uint64_t seed = 0;                              // of requests that have none
  std::shared_ptr<GrammarCompiler> grammar = {};  // absent: requests with a grammar are refused
};

// Why a request cannot be taken now: the queue is full. The server answers 429.
class QueueFullError : public Error {
 public:
  using Error::Error;
};

struct EngineStats {
  int64_t running = 0, waiting = 0;
  int64_t pages = 0, free_pages = 0;  // of the cache; pages that only the prefix cache keeps count as free
  int64_t prompt_tokens = 0;          // of all requests so far, as the rest
  int64_t generation_tokens = 0;
  int64_t prefix_queries = 0, prefix_hits = 0;  // tokens
  int64_t preemptions = 0;
  int64_t steps = 0;
  int64_t finished_stop = 0, finished_length = 0, finished_cancelled = 0, finished_error = 0;
  int64_t draft_tokens = 0, accepted_tokens = 0;
  bool healthy = true;  // false: a step failed as a whole, and nothing more is taken
};

struct EngineInfo {
  int64_t vocab_size = 0;
  int64_t max_model_len = 0;
  int64_t max_num_seqs = 0;
  bool can_generate = true;
  bool can_embed = true;
  bool can_classify = false;
  bool accepts_images = false;  // whether prompts may have images
  std::vector<int32_t> eos_token_ids;
  std::string cache_dtype;  // empty without a cache
};

// A request that runs or waits, for those who watch.
struct RequestSummary {
  RequestId id = 0;
  bool is_running = false;
  int64_t prompt_tokens = 0, output_tokens = 0;
  std::chrono::steady_clock::time_point arrived;
};

class Engine {
 public:
  virtual ~Engine() = default;

  // Thread-safe. Checks the request: ConfigError for what can never run, QueueFullError for what cannot now.
  virtual RequestId submit(Request request, OutputCallback callback) = 0;
  // Its pages are free before the next step; the last output says Cancelled. Unknown or finished: nothing happens.
  virtual void cancel(RequestId id) = 0;
  // Waits until nothing runs or waits, at most this long; whether that was so. New requests are refused from now on.
  virtual bool drain(std::chrono::milliseconds limit) = 0;

  // Adapters of requests, by name. ConfigError: a name that is taken or unknown, or files that do not fit the model.
  virtual void load_adapter(const std::string& name, const std::string& directory) = 0;
  virtual void unload_adapter(const std::string& name) = 0;
  virtual std::vector<std::string> adapters() const = 0;

  virtual EngineStats stats() const = 0;
  // As of the last step: the first of those that run, then of those that wait, at most some dozens.
  virtual std::vector<RequestSummary> summaries() const { return {}; }
  virtual const EngineInfo& info() const = 0;
};

// An engine with a thread of its own, which owns the model from now on. Without a tokenizer there is no text: outputs
// have tokens alone, and stop strings are refused.
std::shared_ptr<Engine> make_engine(std::shared_ptr<BaseModule> model, std::shared_ptr<const Tokenizer> tokenizer,
                                    const EngineOptions& options = {});

// The whole answer of one request, for callers that wait: outputs joined into one.
RequestOutput complete(Engine& engine, Request request);
std::vector<RequestOutput> complete_all(Engine& engine, std::vector<Request> requests);

}  // namespace easydel::serve

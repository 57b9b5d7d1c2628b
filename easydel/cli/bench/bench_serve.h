// The options of `easydel bench serve`, and the engine of its --in-process.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "easydel/core/json/json.h"

namespace easydel {
class Tokenizer;
}
namespace easydel::serve {
class Engine;
}

namespace easydel::cli {

struct BenchServeOptions {
  // Where requests go.
  std::string base_url, host = "127.0.0.1", model_name, endpoint = "/v1/completions", api_key;
  int64_t port = 8000;
  bool in_process = false;
  std::string model, config, dtype, device, quantize;  // of --in-process
  int64_t max_num_seqs = 256, max_num_batched_tokens = 0;
  bool prefix_caching = true;
  // What is sent.
  std::string dataset = "random", tokenizer;
  int64_t num_prompts = 1000, input_len = 1024, output_len = 128, prefix_len = 0, file_output_len = 256, vocab_size = 0;
  int64_t num_warmups = 1;
  double range_ratio = 0, temperature = 0;
  bool ignore_eos = false;
  uint64_t seed = 0;
  // When.
  double request_rate = std::numeric_limits<double>::infinity(), burstiness = 1;
  int64_t max_concurrency = 0;  // 0: any number
  // What is told.
  std::vector<std::string> goodput, metrics = {"ttft", "tpot", "itl", "e2el"};
  std::vector<double> percentiles = {99};
  std::string save_result;
  bool json = false;

  bool is_random() const { return dataset == "random"; }
};

struct BenchEngine {
  std::shared_ptr<serve::Engine> engine;
  std::shared_ptr<const Tokenizer> tokenizer;  // null: the model has none
  int64_t vocab_size = 0;
  Json about;  // parameters, device, dtype and threads, for the report
};
BenchEngine make_bench_engine(const BenchServeOptions& options);

}  // namespace easydel::cli

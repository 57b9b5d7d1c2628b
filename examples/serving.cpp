// Many concurrent requests through the engine: streamed output, a request that is cancelled, and a prompt that is
// found in the prefix cache.
#include <easydel/easydel.h>

#include <iostream>
#include <mutex>

namespace ed = easydel;
using namespace ed::serve;

int main() {
  // Any causal language model works; this one has random weights.
  ed::LlamaConfig config;
  config.vocab_size = 100;
  config.hidden_size = 64;
  config.intermediate_size = 128;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 4;
  config.num_key_value_heads = 2;
  const auto model = ed::make_model<ed::LlamaForCausalLM>(config, {.rngs = ed::RandomKey(1)});
  // Without a tokenizer the output is token ids; pass `AutoTokenizer::from_pretrained(…).shared()` to get text.
  const auto engine = make_engine(model, nullptr, {.max_num_seqs = 8, .num_pages = 256});

  Request request;
  for (int32_t token = 0; token < 40; ++token) request.prompt.push_back(token);
  request.sampling.max_tokens = 12;
  request.sampling.ignore_eos = true;

  // Each request has its own settings and seed: its output does not depend on the others.
  std::vector<Request> requests(4, request);
  for (uint64_t i = 0; i < requests.size(); ++i) {
    requests[i].sampling.temperature = i == 0 ? 0.0 : 0.8;
    requests[i].sampling.seed = i;
  }
  const std::vector<RequestOutput> answers = complete_all(*engine, requests);
  for (const RequestOutput& answer : answers) {
    for (const int32_t token : answer.tokens) std::cout << token << " ";
    std::cout << "(" << finish_name(*answer.finish) << ")\n";
  }
  std::cout << "alone the same: " << (complete(*engine, requests[2]).tokens == answers[2].tokens ? "yes" : "no")
            << "\n";
  std::cout << "tokens found in the cache: " << complete(*engine, request).cached_tokens << "\n";

  // The callback is called after every step; it runs on the engine's thread and must not block.
  std::mutex mutex;
  std::size_t seen = 0;
  request.sampling.max_tokens = 10000;
  const RequestId id = engine->submit(request, [&](const RequestOutput& out) {
    const std::lock_guard lock(mutex);
    seen += out.tokens.size();
    if (out.finish) std::cout << "the long one ended: " << finish_name(*out.finish) << "\n";
  });
  engine->cancel(id);
  engine->drain(std::chrono::seconds(10));
}

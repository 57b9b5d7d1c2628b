// Text generation: trains a tokenizer on a few lines, generates greedily and by sampling with a small model, and uses
// a key/value cache directly.
// usage: generation
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <easydel/easydel.h>

#include <iostream>

namespace ed = easydel;

namespace {

const std::vector<std::string> kLines = {"the cat sat on the mat", "the dog sat on the log", "a cat and a dog"};

std::shared_ptr<ed::JsonTokenizer> train_tokenizer() {
  std::size_t next = 0;
  const ed::Json json = ed::train_byte_level_bpe(
      [&](std::string& text) {
        if (next == kLines.size()) return false;
        text = kLines[next++];
        return true;
      },
      {.vocab_size = 280, .special_tokens = {"</s>"}});
  return ed::JsonTokenizer::from_json(json.dump());
}

at::Tensor to_tensor(const std::vector<int32_t>& ids) { return at::tensor(ids, at::kInt).to(at::kLong).unsqueeze(0); }

}  // namespace

int main() try {
  const auto tokenizer = train_tokenizer();
  ed::LlamaConfig config;
  config.vocab_size = tokenizer->vocab_size();
  config.hidden_size = 64;
  config.intermediate_size = 128;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 4;
  config.eos_token_id = *tokenizer->token_to_id("</s>");
  const auto model = ed::make_model<ed::LlamaForCausalLM>(config, {.rngs = ed::RandomKey(1)});

  const at::Tensor prompt = to_tensor(tokenizer->encode_ids("the cat sat"));
  ed::DecodeStream stream(*tokenizer);
  ed::GenerateOptions options;
  options.generation_config.max_new_tokens = 12;
  options.streamer = [&](std::span<const int64_t> tokens) {
    if (tokens[0] >= 0) std::cout << stream.step(static_cast<int32_t>(tokens[0]));
  };
  std::cout << "the cat sat";
  const ed::GenerateOutput greedy = model->generate(prompt, options);
  std::cout << stream.finish() << "\n";

  // The same key gives the same samples.
  options.streamer = {};
  options.generation_config.do_sample = true;
  options.generation_config.temperature = 0.8;
  options.prng_key = ed::RandomKey(7);
  const bool same = at::equal(model->generate(prompt, options).sequences, model->generate(prompt, options).sequences);
  std::cout << "two draws with one key are " << (same ? "equal" : "different") << "\n";

  // With a cache of our own: the prompt once, then a token at a time.
  const at::NoGradGuard no_grad;
  const auto cache = model->init_cache(/*batch_size=*/1, /*max_length=*/64);
  ed::ModelOutput out = (*model)({.input_ids = prompt, .past_key_values = cache});
  std::vector<int64_t> tokens;
  for (int i = 0; i < 12; ++i) {
    const at::Tensor next = out.logits.select(1, out.logits.size(1) - 1).argmax(-1, true);
    tokens.push_back(next.item<int64_t>());
    out = (*model)({.input_ids = next, .past_key_values = cache});
  }
  const at::Tensor expected = greedy.sequences.narrow(1, prompt.size(1), 12).flatten();
  std::cout << "by hand: " << (at::equal(at::tensor(tokens, at::kLong), expected) ? "the same" : "other") << " tokens, "
            << cache->length() << " in the cache\n";
} catch (const std::exception& error) {
  std::cerr << "generation: " << error.what() << "\n";
  return 1;
}

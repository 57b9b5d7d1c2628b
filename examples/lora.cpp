// Adds an adapter to a tiny model, trains it, saves it in peft's format, loads it onto a fresh base and merges it.
// usage: lora DIRECTORY
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <easydel/easydel.h>

#include <iostream>

namespace ed = easydel;

namespace {

std::shared_ptr<ed::LlamaForCausalLM> make_base() {
  ed::LlamaConfig config;
  config.vocab_size = 64;
  config.hidden_size = 32;
  config.intermediate_size = 64;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 4;
  config.num_key_value_heads = 4;
  return ed::make_model<ed::LlamaForCausalLM>(config, {.rngs = ed::RandomKey(1)});
}

}  // namespace

int main(int argc, char** argv) try {
  ed::require<ed::UsageError>(argc == 2, "usage: lora DIRECTORY");
  const auto model = make_base();
  model->apply_lora_to_layers(/*lora_rank=*/8, /*lora_alpha=*/16, "_proj$");
  const auto [base, lora] = model->split_lora_params();
  std::cout << lora.numel() << " of " << base.numel() + lora.numel() << " parameters train\n";

  const at::Tensor ids = at::arange(64).remainder(7).view({2, 32});
  ed::State state = model->to_state(ed::optim::adamw(1e-2));
  for (int step = 0; step < 50; ++step) {
    auto [loss, grads] =
        ed::value_and_grad(state, [&](const ed::BaseModule& m) { return m({.input_ids = ids, .labels = ids}).loss; });
    state = std::move(state).apply_gradients(std::move(grads));
    if (step % 10 == 0) std::cout << "step " << step << ": loss " << loss.item<double>() << "\n";
  }
  std::cout << "optimizer state: " << state.opt_state->nbytes() << " bytes\n";
  ed::save_adapter(*state.model(), argv[1]);

  const auto fresh = make_base();
  ed::load_adapter(*fresh, argv[1]);
  const at::NoGradGuard no_grad;
  const at::Tensor adapted = (*fresh)({.input_ids = ids}).logits;
  fresh->unwrap_lora_to_layers();
  const at::Tensor merged = (*fresh)({.input_ids = ids}).logits;
  std::cout << "merged and unmerged differ by " << (adapted - merged).abs().max().item<double>() << "\n";
  return 0;
} catch (const ed::Error& error) {
  std::cerr << "lora: " << error.what() << "\n";
  return 1;
}

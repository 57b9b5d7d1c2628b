// Quantizes a model to 4 bits and prints how much smaller it is, and how far its logits are off.
#include <iostream>

#include "easydel/easydel.h"

int main() {
  easydel::LlamaConfig config;
  config.vocab_size = 1024;
  config.hidden_size = 256;
  config.intermediate_size = 512;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 8;
  config.num_key_value_heads = 4;
  auto model = easydel::make_model<easydel::LlamaForCausalLM>(config);
  const at::Tensor ids = at::arange(12).view({1, 12});
  const at::Tensor dense = (*model)({.input_ids = ids}).logits;
  const int64_t before = easydel::parameter_bytes(*model);

  model->quantize({.method = "nf4", .group_size = 64});

  const at::Tensor packed = (*model)({.input_ids = ids}).logits;
  std::cout << before << " bytes are now " << easydel::parameter_bytes(*model) << "\n"
            << "logits are off by " << ((packed - dense).norm() / dense.norm()).item<double>() << " of their size\n";
}

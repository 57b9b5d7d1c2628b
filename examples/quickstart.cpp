// Loads a model by name or directory, computes a loss and its gradients, and saves it again. usage: quickstart MODEL
// OUT
#include <ATen/ATen.h>
#include <easydel/easydel.h>

#include <iostream>

namespace ed = easydel;

int main(int argc, char** argv) try {
  if (argc != 3) {
    std::cerr << "usage: quickstart MODEL OUT\n";
    return 2;
  }
  // A directory, or a name on the Hugging Face Hub; weights are memory-mapped, not copied.
  auto model = ed::AutoModelForCausalLM::from_pretrained(
      argv[1], {.dtype = ed::float32, .sharding = {.auto_shard_model = true}});
  const at::Tensor ids = at::randint(model->config().vocab_size, {2, 16}, at::kLong);

  const ed::ModelOutput output = (*model)({.input_ids = ids, .labels = ids});
  output.loss.backward();

  for (const auto& [path, parameter] : model->named_parameters()) {
    std::cout << path << " " << parameter->value().sizes() << " gradient "
              << parameter->value().grad().norm().item<double>() << "\n";
  }
  std::cout << "loss " << output.loss.item<double>() << "\n";
  model->save_pretrained(argv[2], {.max_shard_size = "5GB", .float_dtype = ed::bfloat16});  // transformers loads it
  return 0;
} catch (const ed::Error& error) {
  std::cerr << error.what() << "\n";
  return 1;
}

// Shards a model over eight ranks (threads of this process), prints what each rank stores, computes a loss and its
// gradients, and saves a checkpoint that four ranks load on another mesh. usage: sharding DIRECTORY
#include <ATen/ATen.h>
#include <easydel/easydel.h>

#include <iostream>

namespace ed = easydel;

namespace {

ed::LlamaConfig tiny_config() {
  ed::LlamaConfig config;
  config.vocab_size = 64;
  config.hidden_size = 32;
  config.intermediate_size = 48;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 4;
  config.num_key_value_heads = 2;
  config.sharding.axis_dims = {1, 2, 1, 2, 2};  // dp, fsdp, ep, tp, sp
  return config;
}

double loss_of(const ed::BaseModule& model) {
  const at::Tensor ids = at::arange(48, at::kLong).mul(5).remainder(64).view({3, 16});
  const ed::ModelOutput output = model({.input_ids = ids, .labels = ids});  // the whole batch, on every rank
  output.loss.backward();
  return output.loss.item<double>();
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 2) {
    std::cerr << "usage: sharding DIRECTORY\n";
    return 2;
  }
  const std::string directory = argv[1];
  // The plan needs no memory for the weights, and no ranks.
  std::cout << ed::plan_sharding(*ed::lazy_init<ed::LlamaForCausalLM>(tiny_config()), 8).to_string() << "\n";
  std::cout << "loss on one device                    " << loss_of(*ed::make_model<ed::LlamaForCausalLM>(tiny_config()))
            << "\n";

  // Every rank runs this function. Under mpirun, main would call it directly, without run_ranks.
  ed::run_ranks(8, [&](ed::World& world) {
    const auto model = ed::lazy_init<ed::LlamaForCausalLM>(tiny_config());
    model->shard_model();   // by the rules and the mesh of its config
    model->initialize({});  // each rank draws its own part: the numbers of one device
    const double loss = loss_of(*model);
    model->save_pretrained(directory, {.verbose = false});  // all ranks together; rank 0 writes
    if (world.rank() != 0) return;
    std::cout << "loss on dp,fsdp,ep,tp,sp = 1,2,1,2,2  " << loss << "\n";
    const at::Tensor weight = model->params().at("model.layers.0.self_attn.q_proj.weight");
    std::cout << "rank 0 keeps " << weight.sizes() << " of q_proj, its gradient is " << weight.grad().sizes() << "\n";
  });

  ed::run_ranks(4, [&](ed::World& world) {
    ed::LoadOptions options{.verbose = false};
    options.sharding = {.axis_dims = {2, 1, 1, 1, 2}, .auto_shard_model = true};
    const auto model = ed::AutoModelForCausalLM::from_pretrained(directory, options);
    const double loss = loss_of(*model);
    if (world.rank() == 0) std::cout << "loaded on 2,1,1,1,2                   " << loss << "\n";
  });
  return 0;
} catch (const ed::Error& error) {
  std::cerr << "sharding: " << error.what() << "\n";
  return 1;
}

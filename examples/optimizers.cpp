// Fits a line with an optimizer composed from transformations, saves its state halfway and resumes from it.
// usage: optimizers
#include <ATen/ATen.h>
#include <easydel/easydel.h>

#include <iostream>

namespace ed = easydel;
namespace optim = easydel::optim;

namespace {

// The mean squared error of weight * x + bias on y = 3 x - 1, and its gradients.
double loss_of(const ed::TensorMap& params, ed::TensorMap& gradients) {
  const at::Tensor x = at::linspace(-1, 1, 32);
  const at::Tensor loss = (params.at("weight") * x + params.at("bias") - (3 * x - 1)).square().mean();
  loss.backward();
  for (const auto& [path, param] : params) {
    gradients.set(path, param.grad().clone());
    param.mutable_grad().reset();
  }
  return loss.item<double>();
}

}  // namespace

int main() try {
  ed::TensorMap params{{"weight", at::zeros({}).requires_grad_()}, {"bias", at::zeros({}).requires_grad_()}};
  const auto schedule =
      optim::warmup_cosine_decay_schedule({.peak_value = 0.1, .warmup_steps = 10, .decay_steps = 200});
  const auto tx = optim::chain({optim::clip_by_global_norm(1.0),
                                optim::adamw({.learning_rate = schedule, .mask = optim::not_matching("bias")})});
  optim::OptState state = tx->init(params);
  for (int step = 0; step < 200; ++step) {
    ed::TensorMap gradients;
    const double loss = loss_of(params, gradients);
    tx->apply(params, gradients, state);
    if (step % 50 == 0) {
      std::cout << "step " << step << ": loss " << loss << ", gradient norm "
                << optim::last_global_norm(state).item<double>() << ", learning rate " << schedule(step) << "\n";
    }
    if (step == 100) {
      const ed::Json written = state.to_json();  // and the tensors: state.leaves()
      optim::OptState read = state.clone();
      read.load_json(written, "memory");
      state = read;
      std::cout << "state: " << written.dump() << "\n";
    }
  }
  std::cout << "weight " << params.at("weight").item<double>() << ", bias " << params.at("bias").item<double>() << "\n";
  return 0;
} catch (const ed::Error& error) {
  std::cerr << "optimizers: " << error.what() << "\n";
  return 1;
}

// Fine-tuning from C++: first a training loop written by hand, then a complete run with the trainer.
// usage: training MODEL_DIRECTORY DATA.jsonl OUTPUT_DIRECTORY
#include <easydel/easydel.h>

#include <iostream>

namespace ed = easydel;

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: training MODEL_DIRECTORY DATA.jsonl OUTPUT_DIRECTORY\n";
    return 2;
  }
  try {
    // By hand: gradients as a tree, and an update in place.
    const auto model = ed::AutoModelForCausalLM::from_pretrained(argv[1], {.verbose = false});
    ed::State state = model->to_state(ed::optim::adamw(1e-3));
    const at::Tensor ids = at::arange(32, at::kLong).view({2, 16});
    for (int i = 0; i < 3; ++i) {
      auto [loss, grads] =
          ed::value_and_grad(state, [&](const ed::BaseModule& m) { return m({.input_ids = ids, .labels = ids}).loss; });
      state = std::move(state).apply_gradients(std::move(grads));
      std::cout << "step " << state.step << ": loss " << loss.item<double>() << "\n";
    }
    state.save_state(std::string(argv[3]) + "/by-hand", {.verbose = false});

    // With the builder: data, batches, logs, checkpoints and a report.
    const ed::TrainResult result = ed::ELargeModel::from_pretrained(argv[1])
                                       .set_dtype("fp32")
                                       .set_sharding({.axis_dims = {1, 1, 1, 1, 1}})
                                       .add_dataset({.data_files = argv[2]})
                                       .set_trainer("sft", {.save_directory = std::string(argv[3]) + "/run",
                                                            .max_training_steps = 4,
                                                            .total_batch_size = 2,
                                                            .learning_rate = 1e-3,
                                                            .max_length = 32,
                                                            .verbose = false})
                                       .train();
    std::cout << "trained " << result.step << " steps: " << result.checkpoint.filename().string() << "\n";
  } catch (const ed::Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}

// Times steps of a model that sees: `vision_bench CONFIG TASK INPUTS STEPS DTYPE DEVICE backward|step`. INPUTS is a
// safetensors file with inputs by name. bench/vision_bench.py alternates it with transformers and prints ratios.
#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include "easydel/core/dtype.h"
#include "easydel/core/memory.h"
#include "easydel/infra/auto_model.h"
#include "easydel/infra/config/auto_config.h"
#include "easydel/infra/state/state.h"
#include "easydel/io/safetensors/safetensors.h"
#include "easydel/optim/optimizers.h"
#include "easydel/trainers/run/gradients.h"

namespace ed = easydel;

namespace {

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

void wait_for(at::Device device) { at::zeros({1}, device).item<float>(); }  // behind all that is queued

int run(const std::vector<std::string>& words) {
  ed::keep_freed_memory();
  const at::Device device(words[5]);
  const ed::DType dtype = ed::parse_dtype(words[4]);
  const auto config = ed::AutoConfig::from_dict(ed::Json::parse_file(words[0]));
  const auto model =
      ed::init_model(*config, ed::parse_task(words[1]), {.dtype = dtype, .param_dtype = dtype, .device = device});
  const auto file = ed::SafetensorsFile::open(words[2]);
  const auto input = [&](const std::string& name, bool on_device = true) {
    const std::vector<std::string> names = file->names();
    if (std::find(names.begin(), names.end(), name) == names.end()) return at::Tensor();
    return on_device ? file->tensor(name).to(device) : file->tensor(name).clone();
  };
  ed::ModelInputs inputs;
  inputs.input_ids = input("input_ids");
  inputs.labels = input("labels");
  inputs.pixel_values = input("pixel_values");
  inputs.image_grid_thw = input("image_grid_thw", /*on_device=*/false);  // as a trainer's batch has it
  const int steps = std::stoi(words[3]);
  const bool updates = words[6] == "step";
  ed::State state = model->to_state(ed::optim::adamw(1e-4));
  double best = 1e30, loss = 0;
  for (int i = 0; i < steps + 2; ++i) {
    wait_for(device);
    const double begin = seconds();
    const ed::ModelOutput out = (*model)(inputs);
    out.loss.backward();
    auto gradients = ed::take_gradients(state.graphstate);
    if (updates) state = std::move(state).apply_gradients(std::move(gradients));
    wait_for(device);
    if (i >= 2) best = std::min(best, seconds() - begin);
    loss = out.loss.item<double>();
  }
  std::printf("{\"seconds\": %.6f, \"loss\": %.6f, \"peak_bytes\": %ld, \"parameters\": %ld}\n", best, loss,
              static_cast<long>(ed::peak_memory(device)), static_cast<long>(model->num_params()));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 8) {
    std::cerr << "usage: vision_bench CONFIG TASK INPUTS STEPS DTYPE DEVICE backward|step\n";
    return 2;
  }
  return run({argv + 1, argv + argc});
}

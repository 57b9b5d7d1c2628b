// Times a model on random tokens and reports the memory it took: `model_bench DIRECTORY forward|train BATCH TOKENS
// STEPS`. bench/model_bench.py alternates it with transformers and prints ratios.
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <string>

#include "easydel/easydel.h"
#include "easydel/infra/auto_model.h"

namespace ed = easydel;

namespace {

int64_t status_bytes(const std::string& key) {  // of /proc/self/status: VmRSS, VmHWM
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(key + ":")) return std::stoll(line.substr(key.size() + 1)) * 1024;
  }
  return 0;
}

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) {
    std::cerr << "usage: model_bench DIRECTORY forward|train BATCH TOKENS STEPS\n";
    return 2;
  }
  const bool train = std::string(argv[2]) == "train";
  const int64_t batch = std::stoll(argv[3]);
  const int64_t tokens = std::stoll(argv[4]);
  const int steps = std::stoi(argv[5]);
  const int64_t before = status_bytes("VmRSS");

  const double load_start = seconds();
  const auto model = ed::AutoModelForCausalLM::from_pretrained(argv[1], {.verbose = false});
  const double load = seconds() - load_start;
  const at::Tensor ids = at::randint(model->config().vocab_size, {batch, tokens}, at::kLong);
  const at::AutoGradMode grad_mode(train);
  double best = 1e30;
  double loss = 0;
  for (int step = 0; step < steps; ++step) {
    const double start = seconds();
    ed::ModelInputs inputs{.input_ids = ids};
    if (train) inputs.labels = ids;
    const ed::ModelOutput out = (*model)(inputs);
    if (train) {
      out.loss.backward();
      loss = out.loss.item<double>();
      for (const auto& [path, parameter] : model->named_parameters()) parameter->value().mutable_grad().reset();
    }
    best = std::min(best, seconds() - start);
  }
  std::printf("{\"tokens_per_second\": %.1f, \"peak_bytes\": %ld, \"load_seconds\": %.4f, \"loss\": %.6f}\n",
              static_cast<double>(batch * tokens) / best, status_bytes("VmHWM") - before, load, loss);
}

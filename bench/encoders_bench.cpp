// Runs what bench/encoders_bench.py asks for: `encoders_bench t5|clip FOLDER NEW`. FOLDER has a model and
// inputs.safetensors. Each line of standard input is one run; a line of JSON answers it, with the CPU's seconds.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>
#include <sys/resource.h>

#include <chrono>
#include <iostream>
#include <string>

#include "easydel/core/json/json.h"
#include "easydel/core/memory.h"
#include "easydel/generation/generate.h"
#include "easydel/infra/auto_model.h"
#include "easydel/io/safetensors/safetensors.h"

namespace ed = easydel;

namespace {

double cpu_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto of = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return of(used.ru_utime) + of(used.ru_stime);
}

at::Tensor generate(const ed::BaseModule& model, const at::Tensor& ids, int64_t count) {
  return ed::generate(model, ids, {.generation_config = {.max_new_tokens = count, .min_new_tokens = count}}).sequences;
}

at::Tensor embed(const ed::BaseModule& model, const ed::ModelInputs& inputs) {
  const c10::InferenceMode guard;
  const ed::ModelOutput out = model(inputs);
  return at::cat({out.image_embeds.flatten(), out.text_embeds.flatten()});
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: encoders_bench t5|clip FOLDER NEW\n";
    return 2;
  }
  at::set_num_threads(1);
  ed::keep_freed_memory();
  const std::string kind = argv[1], folder = argv[2];
  const int64_t count = std::stoll(argv[3]);
  const bool writes = kind == "t5";
  const ed::TaskType task = writes ? ed::TaskType::SequenceToSequence : ed::TaskType::ZeroShotImageClassification;
  const auto model = ed::load_model(folder, task, {.verbose = false});
  const auto file = ed::SafetensorsFile::open(folder + "/inputs.safetensors");
  ed::ModelInputs inputs{.input_ids = file->tensor("input_ids")};
  if (!writes) inputs.pixel_values = file->tensor("pixel_values");
  for (std::string line; std::getline(std::cin, line);) {
    const auto begin = std::chrono::steady_clock::now();
    const double before = cpu_seconds();
    const at::Tensor result = writes ? generate(*model, inputs.input_ids, count) : embed(*model, inputs);
    const double cpu = cpu_seconds() - before;
    const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin;
    const at::Tensor flat = result.flatten().to(at::kDouble).contiguous();
    const std::vector<double> values(flat.const_data_ptr<double>(), flat.const_data_ptr<double>() + flat.numel());
    std::cout << ed::Json::object({{"cpu", cpu}, {"wall", wall.count()}, {"values", values}}).dump() << std::endl;
  }
  return 0;
}

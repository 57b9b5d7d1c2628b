// The live line of a training run: steps, loss, learning rate, gradient norm, speed, peak memory, time left.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "easydel/core/progress/progress.h"

namespace easydel {

// What is not there is not shown.
struct TrainProgressValues {
  std::optional<double> loss, reward, learning_rate, grad_norm, tokens_per_second;
  std::optional<double> tflops;  // 10^12 operations a second of the model; shown where there is no MFU
  std::optional<double> mfu;     // 0.41: 41 % of what the device could compute
  std::optional<int64_t> peak_memory_bytes;
};

struct TrainProgressOptions {
  int64_t total_steps = 0;  // 0: unknown
  int64_t first_step = 0;   // steps that earlier runs have done; not part of speed and time left
  std::string label = "train";
  std::string type = "tqdm";  // tqdm, rich: a bar; json: a line of JSON for each update; none
};

// "loss 2.3101  lr 2.00e-05  grad 1.234  12.3k tok/s  MFU 41.2%  peak 3.2 GiB"
std::string format_train_values(const TrainProgressValues& values);

// A bar on a terminal, elsewhere a plain line every few seconds. Only rank 0 shows anything.
class TrainProgress {
 public:
  explicit TrainProgress(TrainProgressOptions options);

  void update(int64_t step, const TrainProgressValues& values);  // steps done in all
  void finish();

 private:
  TrainProgressOptions options_;
  Progress bar_;
};

}  // namespace easydel

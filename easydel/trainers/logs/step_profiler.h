// Some steps of a run as a Chrome trace: every operation, with its kernels on a GPU.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>

#include "easydel/trainers/arguments/training_arguments.h"

namespace easydel {

// Steps count from 1. One at a time in a process; the thread that runs the steps makes all calls.
class StepProfiler {
 public:
  StepProfiler(const TrainingArguments::Steps& steps, const std::filesystem::path& directory, at::Device device);
  ~StepProfiler();
  StepProfiler(StepProfiler&&) = delete;

  void before(int64_t step);
  void after(int64_t step);
  // Writes what there is if the run ended in between; a warning if it never came to the first step.
  void finish(int64_t last_step);

 private:
  void write(int64_t last_step);

  TrainingArguments::Steps steps_;
  std::filesystem::path directory_;
  at::Device device_;
  bool is_recording_ = false, is_written_ = false;
  int64_t begin_ = 0;
};

}  // namespace easydel

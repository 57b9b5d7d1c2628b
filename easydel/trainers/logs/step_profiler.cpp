#include "easydel/trainers/logs/step_profiler.h"

#include <torch/csrc/autograd/profiler_kineto.h>

#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/core/log.h"

namespace easydel {
namespace profiler = torch::autograd::profiler;
using torch::profiler::impl::ActivityType;
using torch::profiler::impl::ProfilerConfig;
using torch::profiler::impl::ProfilerState;

StepProfiler::StepProfiler(const TrainingArguments::Steps& steps, const std::filesystem::path& directory,
                           at::Device device)
    : steps_(steps), directory_(directory), device_(device) {}

StepProfiler::~StepProfiler() {
  if (is_recording_) profiler::disableProfiler();
}

void StepProfiler::before(int64_t step) {
  if (is_written_ || is_recording_ || step < steps_.first || step >= steps_.first + steps_.count) return;
  const ProfilerConfig config(ProfilerState::KINETO, /*report_input_shapes=*/true);
  std::set<ActivityType> activities{ActivityType::CPU};
  if (device_.is_cuda()) activities.insert(ActivityType::CUDA);
  profiler::prepareProfiler(config, activities);
  profiler::enableProfiler(config, activities, {at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION});
  is_recording_ = true;
  begin_ = step;
}

void StepProfiler::after(int64_t step) {
  if (is_recording_ && step >= steps_.first + steps_.count - 1) write(step);
}

void StepProfiler::finish(int64_t last_step) {
  if (is_recording_) write(last_step);
  if (!is_written_)
    log::warning("[trainer] profile: no step was recorded: the profile begins at step ", steps_.first,
                 ", and the run ended at step ", last_step, ".");
}

void StepProfiler::write(int64_t last_step) {
  is_recording_ = false;
  is_written_ = true;
  const auto result = profiler::disableProfiler();
  const auto path = directory_ / (begin_ == last_step ? concat("profile-", begin_, ".json")
                                                      : concat("profile-", begin_, "-", last_step, ".json"));
  make_directory(directory_);
  std::filesystem::remove(path);
  result->save(path.string());
  log::info("[trainer] the profile is in ", path.string(), "; open it with ui.perfetto.dev or chrome://tracing.");
}

}  // namespace easydel

// SIGTERM and Ctrl-C as a request to stop, for callers that can end cleanly.
#pragma once

#include <cstdint>

namespace easydel {

// While one lives, the first such signal is noted; a second one ends the process as if there were none. Any number may
// live at once.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;
  static int received();  // its number, 0: none

  enum class Doing { Nothing, Step, Evaluation };
  // What the process is doing, for the line that the first signal prints on standard error at once: "finishing step 7,
  // then saving; press Ctrl-C again to stop now". Nothing is printed until this was called. `saves`: whether there is a
  // directory to save into.
  static void is_doing(Doing what, int64_t step, bool saves);
};

}  // namespace easydel

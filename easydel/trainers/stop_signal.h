// SIGTERM and Ctrl-C as a wish to stop, for who can end cleanly.
#pragma once

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
};

}  // namespace easydel

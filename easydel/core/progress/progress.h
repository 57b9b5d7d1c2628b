// Progress bars with rate and time left: several at once on a terminal, a plain line now and then elsewhere.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace easydel {

std::string format_duration(double seconds);  // "0:07", "1:02:03"

struct ProgressOptions {
  int64_t total = 0;        // 0: unknown, shown without a bar
  std::string unit = "it";  // "B" shows sizes in binary units
  bool enabled = true;      // false: every call does nothing
};

// Thread-safe. Only rank 0 shows anything. Ends when destroyed; the last state stays on the screen.
class Progress {
 public:
  Progress(std::string label, ProgressOptions options);
  ~Progress();
  Progress(Progress&&) noexcept;
  Progress& operator=(Progress&&) noexcept;

  void advance(int64_t amount = 1);
  void set(int64_t done);
  void set_message(std::string message);  // shown after the rate: "loss 2.31"
  void finish();

 private:
  struct Bar;
  friend class ProgressBoard;
  std::shared_ptr<Bar> bar_;
};

}  // namespace easydel

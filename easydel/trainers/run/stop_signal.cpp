#include "easydel/trainers/run/stop_signal.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <mutex>
#include <string_view>

namespace easydel {
namespace {

constexpr std::array kSignals = {SIGTERM, SIGINT};
// Ranks that are threads read what a handler on another thread wrote.
std::atomic<int> g_received = 0;
std::atomic<StopSignal::Doing> g_doing = StopSignal::Doing::Nothing;
std::atomic<int64_t> g_step = 0;
std::atomic<bool> g_saves = false, g_has_terminal = false;
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<int64_t>::is_always_lock_free);
std::mutex g_mutex;
int g_living = 0;
std::array<struct sigaction, kSignals.size()> g_before;

// Inside of a handler: no allocation, no locks.
class Line {
 public:
  Line& operator<<(std::string_view text) {
    const std::size_t size = std::min(text.size(), sizeof(text_) - size_);
    std::memcpy(text_ + size_, text.data(), size);
    size_ += size;
    return *this;
  }
  Line& operator<<(int64_t number) {
    char digits[20];
    const auto end = std::to_chars(digits, digits + sizeof(digits), number).ptr;
    return *this << std::string_view(digits, static_cast<std::size_t>(end - digits));
  }
  void print() const { (void)!::write(STDERR_FILENO, text_, size_); }

 private:
  char text_[256];
  std::size_t size_ = 0;
};

void acknowledge(int signal) {
  const StopSignal::Doing doing = g_doing;
  if (doing == StopSignal::Doing::Nothing) return;
  const int error = errno;
  Line line;
  if (g_has_terminal) line << "\r\033[K";  // over a progress bar, which is drawn again below
  line << "[trainer] " << (signal == SIGINT ? "Ctrl-C" : "SIGTERM") << ": finishing "
       << (doing == StopSignal::Doing::Step ? "step " : "the evaluation after step ") << g_step.load() << ", then "
       << (g_saves ? "saving" : "stopping") << "; press Ctrl-C again to stop now\n";
  line.print();
  errno = error;
}

void note(int signal) {
  int none = 0;
  if (!g_received.compare_exchange_strong(none, signal)) {  // whoever sends it again means it
    std::signal(signal, SIG_DFL);
    std::raise(signal);
    return;
  }
  acknowledge(signal);
}

}  // namespace

StopSignal::StopSignal() {
  const std::lock_guard lock(g_mutex);
  if (g_living++ > 0) return;
  g_received = 0;
  g_doing = Doing::Nothing;
  g_has_terminal = ::isatty(STDERR_FILENO) != 0;
  struct sigaction action{};
  action.sa_handler = note;
  action.sa_flags = SA_RESTART;
  for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &action, &g_before[i]);
}

StopSignal::~StopSignal() {
  const std::lock_guard lock(g_mutex);
  if (--g_living > 0) return;
  for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &g_before[i], nullptr);
}

int StopSignal::received() { return g_received; }

void StopSignal::is_doing(Doing what, int64_t step, bool saves) {
  g_step = step;
  g_saves = saves;
  g_doing = what;
}

}  // namespace easydel

#include "easydel/trainers/stop_signal.h"

#include <array>
#include <atomic>
#include <csignal>
#include <mutex>

namespace easydel {
namespace {

constexpr std::array kSignals = {SIGTERM, SIGINT};
// Ranks that are threads read what a handler on another thread wrote.
std::atomic<int> g_received = 0;
static_assert(std::atomic<int>::is_always_lock_free);
std::mutex g_mutex;
int g_living = 0;
std::array<struct sigaction, kSignals.size()> g_before;

void note(int signal) {
  if (g_received != 0) {  // whoever sends it again means it
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
  g_received = signal;
}

}  // namespace

StopSignal::StopSignal() {
  const std::lock_guard lock(g_mutex);
  if (g_living++ > 0) return;
  g_received = 0;
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

}  // namespace easydel

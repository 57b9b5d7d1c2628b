// The lines of standard error: all progress bars of the process, and log lines above them.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "easydel/core/progress/progress.h"

namespace easydel {

class ProgressBoard;

struct Progress::Bar {
  std::string label;
  ProgressOptions options;
  int64_t done = 0;
  std::string message;
  ProgressBoard* board = nullptr;
  std::chrono::steady_clock::time_point started, last_line;
};

class ProgressBoard {
 public:
  struct Settings {
    bool terminal = false;
    int width = 100;                                // columns of the terminal
    std::function<void(const std::string&)> write;  // bytes to the terminal or file
    std::function<std::chrono::steady_clock::time_point()> now;
    std::chrono::milliseconds redraw{100};  // on a terminal
    std::chrono::milliseconds line{5000};   // elsewhere
  };
  explicit ProgressBoard(Settings settings) : settings_(std::move(settings)) {}
  static ProgressBoard& instance();  // on standard error
  // Bars made by this thread go to another board while one is set; for tests.
  static void override_for_thread(ProgressBoard* board);
  static ProgressBoard& current();

  void add(const std::shared_ptr<Progress::Bar>& bar);
  void update(Progress::Bar& bar, const std::function<void(Progress::Bar&)>& change);
  void remove(const std::shared_ptr<Progress::Bar>& bar);
  void print_line(const std::string& line);

  static std::string render(const Progress::Bar& bar, double seconds, int width);

 private:
  void erase_bars();
  void draw_bars();
  void redraw(bool force);

  Settings settings_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<Progress::Bar>> bars_;
  std::size_t drawn_ = 0;  // lines of the terminal that hold bars
  std::chrono::steady_clock::time_point last_draw_{};
};

}  // namespace easydel

#include "easydel/core/progress/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "easydel/core/error.h"
#include "easydel/core/progress/progress_board.h"
#include "easydel/core/runtime.h"
#include "easydel/core/text/bytes.h"

namespace easydel {
namespace {

thread_local ProgressBoard* board_of_thread = nullptr;

std::string format_amount(int64_t amount, const std::string& unit) {
  return unit == "B" ? format_bytes(amount) : group_digits(amount);
}

std::string format_rate(double rate, const std::string& unit) {
  if (unit == "B") return format_bytes(static_cast<int64_t>(rate)) + "/s";
  std::array<char, 40> buffer{};
  std::snprintf(buffer.data(), buffer.size(), rate < 100 ? "%.2f" : "%.0f", rate);
  return concat(buffer.data(), " ", unit, "/s");
}

int terminal_width() {
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

std::string format_duration(double seconds) {
  const auto whole = static_cast<int64_t>(std::llround(std::max(0.0, std::min(seconds, 3.6e8))));
  std::array<char, 40> buffer{};
  if (whole >= 3600) {
    std::snprintf(buffer.data(), buffer.size(), "%ld:%02ld:%02ld", whole / 3600, whole / 60 % 60, whole % 60);
  } else {
    std::snprintf(buffer.data(), buffer.size(), "%ld:%02ld", whole / 60, whole % 60);
  }
  return buffer.data();
}

ProgressBoard& ProgressBoard::instance() {
  // Never destroyed: bars and log lines may come from other static objects.
  static ProgressBoard* board = new ProgressBoard({
      .terminal = ::isatty(STDERR_FILENO) == 1,
      .width = terminal_width(),
      .write = [](const std::string& text) { std::fwrite(text.data(), 1, text.size(), stderr); },
      .now = [] { return std::chrono::steady_clock::now(); },
  });
  return *board;
}

void ProgressBoard::override_for_thread(ProgressBoard* board) { board_of_thread = board; }
ProgressBoard& ProgressBoard::current() { return board_of_thread ? *board_of_thread : instance(); }

std::string ProgressBoard::render(const Progress::Bar& bar, double seconds, int width) {
  const auto& [total, unit, enabled] = bar.options;
  const double rate = seconds > 0 ? static_cast<double>(bar.done) / seconds : 0;
  std::string tail = format_amount(bar.done, unit);
  if (total > 0) tail += concat("/", format_amount(total, unit));
  tail += concat(" [", format_duration(seconds));
  if (total > 0 && rate > 0) tail += concat("<", format_duration(static_cast<double>(total - bar.done) / rate));
  tail += concat(", ", format_rate(rate, unit), "]");
  if (!bar.message.empty()) tail += concat(" ", bar.message);
  if (total <= 0) return concat(bar.label, ": ", tail);

  const double share = std::clamp(static_cast<double>(bar.done) / static_cast<double>(total), 0.0, 1.0);
  const std::string head = concat(bar.label, ": ", static_cast<int>(share * 100), "%");
  const int room = width - static_cast<int>(head.size() + tail.size()) - 4;
  if (room < 8) return concat(head, " ", tail);
  const int cells = std::min(room, 40);
  const int full = static_cast<int>(share * cells);
  return concat(head, " |", std::string(full, '#'), std::string(cells - full, '.'), "| ", tail);
}

void ProgressBoard::erase_bars() {
  if (drawn_ == 0) return;
  settings_.write(concat("\x1b[", drawn_, "A\r\x1b[J"));
  drawn_ = 0;
}

void ProgressBoard::draw_bars() {
  std::string text;
  for (const auto& bar : bars_) {
    const double seconds = std::chrono::duration<double>(settings_.now() - bar->started).count();
    text += render(*bar, seconds, settings_.width).substr(0, settings_.width - 1) + "\n";
  }
  settings_.write(text);
  drawn_ = bars_.size();
  last_draw_ = settings_.now();
}

void ProgressBoard::redraw(bool force) {
  if (!force && settings_.now() - last_draw_ < settings_.redraw) return;
  erase_bars();
  draw_bars();
}

void ProgressBoard::add(const std::shared_ptr<Progress::Bar>& bar) {
  const std::lock_guard lock(mutex_);
  bar->started = bar->last_line = settings_.now();
  bars_.push_back(bar);
  if (settings_.terminal) redraw(/*force=*/true);
}

void ProgressBoard::update(Progress::Bar& bar, const std::function<void(Progress::Bar&)>& change) {
  const std::lock_guard lock(mutex_);
  change(bar);
  if (settings_.terminal) {
    redraw(/*force=*/false);
  } else if (const auto now = settings_.now(); now - bar.last_line >= settings_.line) {
    bar.last_line = now;
    settings_.write(render(bar, std::chrono::duration<double>(now - bar.started).count(), settings_.width) + "\n");
  }
}

void ProgressBoard::remove(const std::shared_ptr<Progress::Bar>& bar) {
  const std::lock_guard lock(mutex_);
  if (settings_.terminal) erase_bars();
  const double seconds = std::chrono::duration<double>(settings_.now() - bar->started).count();
  settings_.write(render(*bar, seconds, settings_.width) + "\n");
  bars_.erase(std::remove(bars_.begin(), bars_.end(), bar), bars_.end());
  if (settings_.terminal && !bars_.empty()) draw_bars();
}

void ProgressBoard::print_line(const std::string& line) {
  const std::lock_guard lock(mutex_);
  if (settings_.terminal) erase_bars();
  settings_.write(line + "\n");
  if (settings_.terminal && !bars_.empty()) draw_bars();
}

Progress::Progress(std::string label, ProgressOptions options) {
  if (!options.enabled || current_rank().rank != 0) return;
  bar_ = std::make_shared<Bar>();
  bar_->label = std::move(label);
  bar_->options = std::move(options);
  bar_->board = &ProgressBoard::current();
  bar_->board->add(bar_);
}

Progress::~Progress() { finish(); }
Progress::Progress(Progress&&) noexcept = default;

Progress& Progress::operator=(Progress&& other) noexcept {
  finish();
  bar_ = std::move(other.bar_);
  return *this;
}

void Progress::advance(int64_t amount) {
  if (bar_) bar_->board->update(*bar_, [&](Bar& bar) { bar.done += amount; });
}

void Progress::set(int64_t done) {
  if (bar_) bar_->board->update(*bar_, [&](Bar& bar) { bar.done = done; });
}

void Progress::set_message(std::string message) {
  if (bar_) bar_->board->update(*bar_, [&](Bar& bar) { bar.message = std::move(message); });
}

void Progress::finish() {
  if (!bar_) return;
  bar_->board->remove(bar_);
  bar_.reset();
}

}  // namespace easydel

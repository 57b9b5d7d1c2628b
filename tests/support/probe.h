// Probes: a test for each field of an options struct, which shows what the field does or that it is refused by name.
//
//   PROBE(LoadOptions, param_dtype) { EXPECT_EQ(load({.param_dtype = bfloat16})->module_dtype(), bfloat16); }
//
// is the test LoadOptions.param_dtype. tests/options_test.py reads the headers that easydel.h reaches and fails when a
// field has no probe; a probe of a field that is not there does not compile.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "easydel/core/error.h"
#include "easydel/core/log.h"
#include "easydel/core/progress/progress_board.h"

#define PROBE(Struct, field)                  \
  static_assert(sizeof(&Struct::field) != 0); \
  TEST(Struct, field)

namespace easydel::testing_support {

// The message of the easydel::Error that `action` throws; empty when it throws none.
inline std::string refusal(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// For EXPECT_TRUE: refused with a message that has this in it, usually the field's name.
inline testing::AssertionResult is_refused(const std::string& part, const std::function<void()>& action) {
  const std::string message = refusal(action);
  if (message.find(part) != std::string::npos) return testing::AssertionSuccess();
  if (message.empty()) return testing::AssertionFailure() << "not refused; expected a refusal with \"" << part << "\"";
  return testing::AssertionFailure() << "the refusal lacks \"" << part << "\": " << message;
}

// Log lines, of every level that is on, while it lives.
class LogLines {
 public:
  LogLines() {
    log::set_sink([this](log::Level, const std::string& line) { lines_.push_back(line); });
  }
  ~LogLines() { log::set_sink({}); }
  LogLines(const LogLines&) = delete;
  LogLines& operator=(const LogLines&) = delete;

  const std::vector<std::string>& lines() const { return lines_; }
  bool contain(const std::string& part) const {
    for (const std::string& line : lines_) {
      if (line.find(part) != std::string::npos) return true;
    }
    return false;
  }

 private:
  std::vector<std::string> lines_;
};

// The progress bars of this thread while it lives, as a terminal would get them.
class ShownProgress {
 public:
  ShownProgress() { ProgressBoard::override_for_thread(&board_); }
  ~ShownProgress() { ProgressBoard::override_for_thread(nullptr); }
  ShownProgress(const ShownProgress&) = delete;
  ShownProgress& operator=(const ShownProgress&) = delete;

  const std::string& text() const { return text_; }

 private:
  std::string text_;
  ProgressBoard board_{{.terminal = true,
                        .width = 100,
                        .write = [this](const std::string& text) { text_ += text; },
                        .now = [] { return std::chrono::steady_clock::time_point(); }}};
};

// What `action` shows of its progress; empty: nothing.
inline std::string progress_of(const std::function<void()>& action) {
  const ShownProgress shown;
  action();
  return shown.text();
}

}  // namespace easydel::testing_support

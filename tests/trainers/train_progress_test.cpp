#include "easydel/trainers/logs/train_progress.h"

#include <gmock/gmock.h>

#include <cmath>

#include "easydel/core/progress/progress_board.h"

namespace easydel {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

class TrainProgressLine : public testing::Test {
 protected:
  void SetUp() override { ProgressBoard::override_for_thread(&board); }
  void TearDown() override { ProgressBoard::override_for_thread(nullptr); }

  std::string written;
  std::chrono::steady_clock::time_point now{seconds(1000)};
  ProgressBoard board{{.terminal = false,
                       .width = 120,
                       .write = [this](const std::string& text) { written += text; },
                       .now = [this] { return now; }}};
};

TEST(TrainValues, AreShort) {
  EXPECT_EQ(format_train_values({}), "");
  EXPECT_EQ(format_train_values({.loss = 2.31014,
                                 .learning_rate = 2e-5,
                                 .grad_norm = 12.345,
                                 .tokens_per_second = 12345,
                                 .mfu = 0.4123,
                                 .peak_memory_bytes = 3435973837}),
            "loss 2.3101  lr 2.00e-05  grad 12.35  12.3k tok/s  MFU 41.2%  peak 3.2 GiB");
  EXPECT_EQ(format_train_values({.loss = 0.0, .reward = 0.53125, .learning_rate = 1e-6}),
            "loss 0.0000  reward 0.5312  lr 1.00e-06");
  EXPECT_EQ(format_train_values({.loss = std::nan(""), .grad_norm = 1e7, .tokens_per_second = 2.5e6}),
            "loss nan  grad 1.00e+07  2.50M tok/s");
  EXPECT_EQ(format_train_values({.tflops = 0.12345}), "0.123 TFLOP/s");  // where nobody knows what could be had
  EXPECT_EQ(format_train_values({.loss = 0, .grad_norm = 0.0001, .tokens_per_second = 9}),
            "loss 0.0000  grad 1.00e-04  9 tok/s");
}

TEST_F(TrainProgressLine, IsPrintedEveryFewSecondsWithoutATerminal) {
  TrainProgress progress({.total_steps = 100});
  for (int step = 1; step <= 20; ++step) {
    now += seconds(1);
    progress.update(step, {.loss = 3.0 - 0.1 * step});
  }
  EXPECT_EQ(std::count(written.begin(), written.end(), '\n'), 4);
  written.clear();
  progress.finish();
  EXPECT_THAT(written, HasSubstr("train: 20% |"));
  EXPECT_THAT(written, HasSubstr("20/100 [0:20<1:20, 1.00 step/s] loss 1.0000\n"));
}

TEST_F(TrainProgressLine, CountsItsOwnStepsWhenItGoesOn) {
  TrainProgress progress({.total_steps = 5000, .first_step = 4000});
  now += seconds(10);
  progress.update(4100, {.loss = 1});
  written.clear();
  progress.finish();
  EXPECT_THAT(written, HasSubstr("100/1,000 [0:10<1:30, 10.00 step/s] step 4,100/5,000  loss 1.0000\n"));
}

TEST_F(TrainProgressLine, IsNotThereWhereNothingIsLeft) {
  TrainProgress progress({.total_steps = 5000, .first_step = 5000});
  progress.finish();
  EXPECT_EQ(written, "");
}

TEST_F(TrainProgressLine, CanBeJsonOrNothing) {
  TrainProgress none({.total_steps = 5, .type = "none"});
  none.update(1, {.loss = 1});
  none.finish();
  EXPECT_EQ(written, "");
  TrainProgress json({.total_steps = 5, .type = "json"});
  json.update(1, {.loss = 1.5, .tflops = 0.5, .peak_memory_bytes = 10});
  json.finish();
  EXPECT_EQ(written, "{\"step\": 1, \"total_steps\": 5, \"loss\": 1.5, \"tflops\": 0.5, \"peak_memory_bytes\": 10}\n");
}

}  // namespace
}  // namespace easydel

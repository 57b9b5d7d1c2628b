#include "easydel/core/progress/progress.h"

#include <gmock/gmock.h>

#include "easydel/core/progress/progress_board.h"
#include "easydel/core/runtime.h"

namespace easydel {
namespace {

using std::chrono::seconds;

class ProgressBars : public testing::Test {
 protected:
  ProgressBoard make_board(bool terminal) {
    return ProgressBoard({.terminal = terminal,
                          .width = 80,
                          .write = [this](const std::string& text) { written += text; },
                          .now = [this] { return now; }});
  }
  void TearDown() override { ProgressBoard::override_for_thread(nullptr); }

  std::string written;
  std::chrono::steady_clock::time_point now{seconds(1000)};
};

TEST_F(ProgressBars, PrintAPlainLineEveryFewSecondsWithoutATerminal) {
  ProgressBoard board = make_board(false);
  ProgressBoard::override_for_thread(&board);
  {
    Progress progress("loading", {.total = 100, .unit = "step"});
    for (int i = 0; i < 20; ++i) {
      now += seconds(1);
      progress.advance();
    }
    EXPECT_EQ(std::count(written.begin(), written.end(), '\n'), 4);
    EXPECT_THAT(written, testing::HasSubstr("loading: 5% |"));
    EXPECT_THAT(written, testing::HasSubstr("5/100 [0:05<1:35, 1.00 step/s]\n"));
    EXPECT_THAT(written, testing::Not(testing::HasSubstr("\x1b")));
    written.clear();
    progress.set_message("loss 2.5");
  }
  EXPECT_THAT(written, testing::HasSubstr("20/100 [0:20<1:20, 1.00 step/s] loss 2.5\n"));
}

TEST_F(ProgressBars, AreDrawnTogetherBelowLogLinesOnATerminal) {
  ProgressBoard board = make_board(true);
  ProgressBoard::override_for_thread(&board);
  Progress first("a", {.total = 10});
  Progress second("b", {.total = 10});
  written.clear();
  board.print_line("a log line");
  EXPECT_THAT(written, testing::StartsWith("\x1b[2A\r\x1b[J"
                                           "a log line\n"
                                           "a: 0%"));
  EXPECT_THAT(written, testing::HasSubstr("\nb: 0%"));
}

TEST_F(ProgressBars, ShowSizesInBinaryUnitsAndUnknownTotals) {
  ProgressBoard board = make_board(false);
  ProgressBoard::override_for_thread(&board);
  {
    Progress progress("reading", {.unit = "B"});
    now += seconds(2);
    progress.set(4 << 20);
  }
  EXPECT_EQ(written, "reading: 4.0 MiB [0:02, 2.0 MiB/s]\n");
}

TEST_F(ProgressBars, AreShownByTheFirstRankAlone) {
  ProgressBoard board = make_board(false);
  ProgressBoard::override_for_thread(&board);
  const RankScope rank({.rank = 1, .world_size = 2});
  {
    Progress progress("quiet", {.total = 2});
    progress.advance();
  }
  EXPECT_EQ(written, "");
}

}  // namespace
}  // namespace easydel

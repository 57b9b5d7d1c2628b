#include "easydel/core/log.h"

#include <gmock/gmock.h>

#include "easydel/core/runtime.h"

namespace easydel {
namespace {

class Log : public testing::Test {
 protected:
  void SetUp() override {
    before_ = log::level();
    log::set_sink([this](log::Level, const std::string& line) { lines.push_back(line); });
  }
  void TearDown() override {
    log::set_sink({});
    log::set_level(before_);
  }
  std::vector<std::string> lines;

 private:
  log::Level before_{};
};

TEST_F(Log, DropsWhatIsBelowTheLevel) {
  log::set_level(log::Level::Warning);
  log::info("no");
  log::warning("size ", 3);
  log::error("bad");
  EXPECT_THAT(lines, testing::ElementsAre("warning: size 3", "error: bad"));
  log::set_level(log::Level::Off);
  log::error("silent");
  EXPECT_EQ(lines.size(), 2);
}

TEST_F(Log, NamesTheRankWhenThereAreSeveral) {
  log::set_level(log::Level::Info);
  log::info("one");
  {
    const RankScope rank({.rank = 3, .world_size = 8});
    log::info("several");
  }
  log::info("one again");
  EXPECT_THAT(lines, testing::ElementsAre("one", "[rank 3/8] several", "one again"));
}

TEST_F(Log, RefusesAnUnknownLevel) {
  EXPECT_THAT([] { log::parse_level("loud"); },
              testing::ThrowsMessage<ConfigError>(
                  "[log] level must be one of debug, info, warning, error, off; got \"loud\"."));
}

}  // namespace
}  // namespace easydel

#include "easydel/core/error.h"

#include <gmock/gmock.h>

#include <cerrno>
#include <vector>

namespace easydel {
namespace {

TEST(Require, JoinsItsPartsOnlyOnFailure) {
  EXPECT_NO_THROW(require<ConfigError>(true, "never"));
  EXPECT_THAT([] { require<ConfigError>(false, "[Mesh] size must be at least 1; got ", 0, "."); },
              testing::ThrowsMessage<ConfigError>("[Mesh] size must be at least 1; got 0."));
}

TEST(Error, IsTheBaseOfAll) {
  EXPECT_THROW(fail<IoError>("x"), Error);
  EXPECT_THROW(fail<FormatError>("x"), Error);
  EXPECT_THROW(fail<UsageError>("x"), Error);
}

TEST(NearestName, FindsTyposAndNothingElse) {
  const std::vector<std::string> known{"llama", "mistral", "qwen3"};
  EXPECT_EQ(nearest_name("lama", known), "llama");
  EXPECT_EQ(nearest_name("mistrall", known), "mistral");
  EXPECT_EQ(nearest_name("gpt_neox", known), "");
}

TEST(ErrnoText, IsTheSystemsText) { EXPECT_EQ(errno_text(ENOSPC), "No space left on device"); }

}  // namespace
}  // namespace easydel

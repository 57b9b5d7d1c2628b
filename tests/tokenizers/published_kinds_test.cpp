// The tokenizers of well-known models, rebuilt with a small vocabulary, on random texts.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/support/python.h"
#include "tests/support/temporary_directory.h"
#include "tests/tokenizers/parity.h"

namespace easydel {
namespace {

// EASYDEL_DRAWS sets the number of texts.
std::string draws(const char* usual) {
  const char* given = std::getenv("EASYDEL_DRAWS");
  return given ? given : usual;
}

class PublishedKinds : public testing::TestWithParam<const char*> {};

TEST_P(PublishedKinds, EncodeAndDecodeAsThePackageDoes) {
  const TemporaryDirectory directory;
  const std::string count = draws("10000");
  run_python("tokenizers_peer.py", {"kind", directory.path().string(), GetParam(), count, "20"});
  EXPECT_EQ(expect_same_as_the_package(directory.path(), GetParam(), true), std::stoul(count));
}

INSTANTIATE_TEST_SUITE_P(All, PublishedKinds,
                         testing::Values("gpt2", "llama3", "qwen2", "llama2", "mistral", "gemma", "bert", "t5"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace easydel

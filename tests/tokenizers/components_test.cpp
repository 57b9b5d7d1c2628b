// Every type and setting of every part of tokenizer.json, against the tokenizers package.
#include <gtest/gtest.h>

#include <cstdlib>

#include "easydel/core/file.h"
#include "tests/support/python.h"
#include "tests/support/temporary_directory.h"
#include "tests/tokenizers/parity.h"

namespace easydel {
namespace {

TEST(Components, EncodeAndDecodeAsThePackageDoes) {
  const TemporaryDirectory directory;
  const char* given = std::getenv("EASYDEL_DRAWS");
  run_python("tokenizers_peer.py", {"components", directory.path().string(), given ? given : "60", "31"});
  std::size_t tokenizers = 0;
  for (const std::string& file : list_directory(directory.path())) {
    if (!file.ends_with(".json")) continue;
    expect_same_as_the_package(directory.path(), file.substr(0, file.size() - 5), false);
    ++tokenizers;
  }
  EXPECT_GT(tokenizers, 200);
}

}  // namespace
}  // namespace easydel

// Every type and setting of every part of tokenizer.json, against the tokenizers package: many texts for each type
// (EASYDEL_DRAWS of them, 2000 unless it is set).
#include <gtest/gtest.h>

#include <cstdlib>

#include "easydel/core/files/file.h"
#include "tests/support/python.h"
#include "tests/support/temporary_directory.h"
#include "tests/tokenizers/parity.h"

namespace easydel {
namespace {

struct Part {
  const char* name;
  std::size_t tokenizers;  // at least
};

class Components : public testing::TestWithParam<Part> {};

TEST_P(Components, EncodeAndDecodeAsThePackageDoes) {
  const TemporaryDirectory directory;
  const char* given = std::getenv("EASYDEL_DRAWS");
  run_python("tokenizers_peer.py",
             {"components", directory.path().string(), GetParam().name, given ? given : "2000", "31"});
  std::size_t tokenizers = 0;
  for (const std::string& file : list_directory(directory.path())) {
    if (!file.ends_with(".json")) continue;
    expect_same_as_the_package(directory.path(), file.substr(0, file.size() - 5), false);
    ++tokenizers;
  }
  EXPECT_GE(tokenizers, GetParam().tokenizers);
}

INSTANTIATE_TEST_SUITE_P(All, Components,
                         testing::Values(Part{"normalizer", 30}, Part{"pre_tokenizer", 80}, Part{"decoder", 14},
                                         Part{"post_processor", 12}, Part{"model", 14}, Part{"rest", 100}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace easydel

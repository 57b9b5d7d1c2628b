#include "easydel/generation/stopping.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "easydel/core/error.h"
#include "easydel/core/json/json.h"
#include "easydel/io/safetensors/safetensors.h"
#include "tests/support/python.h"
#include "tests/support/temporary_directory.h"

namespace easydel {
namespace {

using testing::ThrowsMessage;

DecodeFunction joining(std::vector<std::string> pieces) {
  return [pieces](std::span<const int32_t> ids) {
    std::string text;
    for (const int32_t id : ids) text += pieces.at(static_cast<std::size_t>(id));
    return text;
  };
}

at::Tensor ids_of(const std::vector<std::string>& pieces, const std::vector<std::string>& words) {
  std::vector<int64_t> ids;
  for (const std::string& word : words) {
    ids.push_back(std::find(pieces.begin(), pieces.end(), word) - pieces.begin());
  }
  return at::tensor(ids).unsqueeze(0);
}

TEST(StopStringCriteria, EndsTheRowsThatTransformersEnds) {
  const TemporaryDirectory directory;
  run_python("generation_peer.py", {"stop_strings", directory.path().string(), "4"});
  const Json cases = Json::parse_file(directory / "cases.json");
  const auto tensors = SafetensorsFile::open(directory / "cases.safetensors");
  int64_t ended = 0, all = 0;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    std::vector<std::string> pieces, stops;
    for (const Json& piece : cases.at(i).at("pieces").as_array()) pieces.push_back(piece.as_string());
    for (const Json& stop : cases.at(i).at("stops").as_array()) stops.push_back(stop.as_string());
    StopStringCriteria criterion(stops, joining(pieces));
    const at::Tensor actual = criterion(tensors->tensor(concat(i, ".ids")), {});
    const at::Tensor expected = tensors->tensor(concat(i, ".done"));
    EXPECT_TRUE(at::equal(actual, expected)) << cases.at(i).dump();
    ended += expected.sum().item<int64_t>();
    all += expected.numel();
  }
  EXPECT_GT(ended, all / 20);
  EXPECT_LT(ended, all / 2);
}

TEST(StopStringCriteria, MatchesOverTheBordersOfTokensAndOnlyWithTheLastOne) {
  const std::vector<std::string> pieces{"st",     "op", "stop", "opera", "sto", "pper", "las",
                                        "topper", "s",  "to",   "pped",  "at",  "tion"};
  StopStringCriteria criterion({"stop"}, joining(pieces));
  const auto ends = [&](const std::vector<std::string>& words) {
    return criterion(ids_of(pieces, words), {}).item<bool>();
  };
  EXPECT_TRUE(ends({"st", "op"}));
  EXPECT_TRUE(ends({"stop"}));
  EXPECT_TRUE(ends({"st", "opera"}));
  EXPECT_TRUE(ends({"las", "topper"}));
  EXPECT_TRUE(ends({"s", "to", "pped"}));
  EXPECT_FALSE(ends({"stop", "at"}));
  EXPECT_FALSE(ends({"st", "op", "at"}));
  EXPECT_FALSE(ends({"st", "opera", "tion"}));
}

TEST(StopStringCriteria, SeesTextBehindTokensThatHaveNone) {
  const std::vector<std::string> pieces{"", "ab", "cd"};
  std::vector<std::string> words{"ab"};
  words.resize(60, "");
  words.push_back("cd");
  EXPECT_TRUE(StopStringCriteria({"bc"}, joining(pieces))(ids_of(pieces, words), {}).item<bool>());
}

TEST(StopStringCriteria, WaitsForAWholeCharacter) {
  // Two tokens make an é; one by itself decodes as the replacement character.
  const DecodeFunction decode = [](std::span<const int32_t> ids) {
    std::string text;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] == 1 && i + 1 < ids.size() && ids[i + 1] == 2) {
        text += "\xC3\xA9";
        ++i;
      } else {
        text += ids[i] == 0 ? "x" : "\xEF\xBF\xBD";
      }
    }
    return text;
  };
  StopStringCriteria criterion({"\xC3\xA9"}, decode);
  EXPECT_FALSE(criterion(at::tensor({0, 0, 1}).unsqueeze(0), {}).item<bool>());
  EXPECT_TRUE(criterion(at::tensor({0, 0, 1, 2}).unsqueeze(0), {}).item<bool>());
  EXPECT_FALSE(criterion(at::tensor({0, 0, 1, 2, 0}).unsqueeze(0), {}).item<bool>());
}

TEST(StopStringCriteria, NeedsATokenizer) {
  EXPECT_THAT([] { StopStringCriteria({"end"}, nullptr); },
              ThrowsMessage<ConfigError>("[generate] stop_strings need the model's tokenizer: set "
                                         "GenerateOptions::decode."));
}

}  // namespace
}  // namespace easydel

// Side by side with the trainer of the tokenizers package.
#include "easydel/tokenizers/bpe_trainer.h"

#include <gmock/gmock.h>

#include <cstdlib>

#include "easydel/core/build_info.h"
#include "easydel/core/error.h"
#include "easydel/core/file.h"
#include "easydel/tokenizers/bpe_split.h"
#include "tests/support/python.h"
#include "tests/support/temporary_directory.h"

#if EASYDEL_HAS_PCRE2
namespace easydel {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

BpeTrainerOptions options_of(const Json& task) {
  BpeTrainerOptions options{.vocab_size = task.at("vocab_size").as_int(),
                            .min_frequency = task.at("min_frequency").as_int(),
                            .pattern = task.at("pattern").as_string(),
                            .max_token_length = task.at("max_token_length").as_int()};
  for (const Json& token : task.at("special_tokens").as_array()) options.special_tokens.push_back(token.as_string());
  return options;
}

TEST(BpeTrainerParity, TokenizersAreThePackagesOnRandomCorpora) {
  const TemporaryDirectory directory;
  const char* draws = std::getenv("EASYDEL_DRAWS");
  const int count = draws ? std::atoi(draws) : 120;
  run_python("bpe_trainer_peer.py", {directory.path().string(), "3", std::to_string(count)});
  std::size_t merges = 0;
  for (int i = 0; i < count; ++i) {
    const Json task = Json::parse_file((directory / concat(i, ".json")).string());
    std::vector<std::filesystem::path> files;
    for (const Json& file : task.at("files").as_array()) files.push_back(directory / file.as_string());
    const Json theirs = Json::parse_file((directory / concat(i, ".tokenizer.json")).string());
    auto options = options_of(task);
    options.threads = 1 + i % 3;
    const Json ours = train_byte_level_bpe(files, options);
    const Json &merged = ours.at("model").at("merges"), &expected = theirs.at("model").at("merges");
    for (std::size_t k = 0; k < std::min(merged.size(), expected.size()); ++k) {
      ASSERT_EQ(merged.at(k).dump(), expected.at(k).dump()) << "merge " << k << " of " << i << ": " << task.dump();
    }
    ASSERT_EQ(merged.size(), expected.size()) << i << ": " << task.dump();
    ASSERT_EQ(ours.dump(), theirs.dump()) << i << ": " << task.dump();
    merges += ours.at("model").at("merges").size();
  }
  EXPECT_GT(merges, 40 * static_cast<std::size_t>(count));
}

TEST(BpeSplitParity, EveryCharacterIsSplitAsThePackageDoes) {
  const TemporaryDirectory directory;
  const std::string file = (directory / "split.json").string();
  run_python("split_peer.py", {file, "gpt2", "llama3", "qwen2"});
  const Json peer = Json::parse_file(file);
  for (const auto& [name, texts] : peer.as_object()) {
    const SplitText split = make_splitter(bpe_pattern(name));
    std::vector<std::string_view> words;
    for (const Json& test : texts.as_array()) {
      words.clear();
      split(test.at(0).as_string(), words);
      for (std::size_t i = 0; i < words.size(); ++i) {
        ASSERT_EQ(static_cast<int64_t>(words[i].size()), test.at(1).at(i).as_int()) << name << " at " << words[i];
      }
      ASSERT_EQ(words.size(), test.at(1).size());
    }
  }
}

}  // namespace
}  // namespace easydel
#endif

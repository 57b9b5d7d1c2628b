// Side by side with the trainer of the tokenizers package.
#include "easydel/tokenizers/bpe/bpe_trainer.h"

#include <gmock/gmock.h>

#include <cstdlib>

#include "easydel/core/build_info.h"
#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/tokenizers/bpe/bpe_split.h"
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

// The same as single texts.
NextText lines_of(const std::vector<std::filesystem::path>& files) {
  std::string all;
  std::vector<std::string> lines;
  for (const auto& file : files) {
    const std::string text = read_file(file);
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
      lines.push_back(text.substr(at, end - at));
      at = end;
    }
  }
  return [lines, next = std::size_t{0}](std::string& text) mutable {
    if (next == lines.size()) return false;
    text = lines[next++];
    return true;
  };
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
    if (i % 4 == 0) {
      ASSERT_EQ(train_byte_level_bpe(lines_of(files), options).dump(), theirs.dump()) << i << ": " << task.dump();
    }
    merges += ours.at("model").at("merges").size();
  }
  EXPECT_GT(merges, 40 * static_cast<std::size_t>(count));
}

Json train_on(const std::vector<std::string>& texts, const BpeTrainerOptions& options) {
  std::size_t next = 0;
  return train_byte_level_bpe(
      [&](std::string& text) {
        if (next == texts.size()) return false;
        text = texts[next++];
        return true;
      },
      options);
}

TEST(BpeTrainer, ReportsInvalidOptionsAndTexts) {
  const auto message = [](const std::vector<std::string>& texts, const BpeTrainerOptions& options) -> std::string {
    try {
      train_on(texts, options);
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  };
  const std::string where = "[train_byte_level_bpe] ";
  EXPECT_EQ(message({"a"}, {.vocab_size = 256}), "");
  EXPECT_EQ(message({"a"}, {.vocab_size = 255}),
            where + "vocab_size must be at least 256, for 256 bytes and 0 special tokens; got 255.");
  EXPECT_EQ(message({"a"}, {.vocab_size = 257, .special_tokens = {"x", "y", "x"}}),
            where + "vocab_size must be at least 258, for 256 bytes and 2 special tokens; got 257.");
  EXPECT_EQ(message({"a"}, {.special_tokens = {""}}), where + "a special token must be valid UTF-8; got \"\".");
  EXPECT_EQ(message({}, {}), where + "the texts are empty; there is nothing to train on.");
  EXPECT_EQ(message({"", ""}, {.threads = 3}), where + "the texts are empty; there is nothing to train on.");
  EXPECT_EQ(message({"a"}, {.pattern = "a(b"}),
            where + "the pattern is not a valid regular expression: missing closing parenthesis; got \"a(b\".");
  EXPECT_EQ(message({"a"}, {.threads = -1}), where + "threads must be between 0 and 1024; got -1.");
  for (const int threads : {1, 3}) {
    EXPECT_EQ(message({"ok", "b\xC3"}, {.threads = threads}),
              where + "the input from text 0 on is not valid UTF-8 at byte 3. Convert it, for instance with iconv.");
    EXPECT_THAT(message({std::string(60, 'a') + "!"}, {.pattern = "(a+)+$", .threads = threads}),
                HasSubstr("exceeds its limits on a text of 61 bytes: match limit exceeded."));
  }
  EXPECT_THAT([] { train_byte_level_bpe(std::vector<std::filesystem::path>{}); },
              ThrowsMessage<ConfigError>(where + "no files were given."));
}

TEST(BpeTrainer, ErrorsOfTheReaderPropagate) {
  for (const int threads : {1, 4}) {
    const NextText failing = [](std::string&) -> bool { throw std::runtime_error("the reader has failed"); };
    EXPECT_THAT([&] { train_byte_level_bpe(failing, {.threads = threads}); },
                ThrowsMessage<std::runtime_error>("the reader has failed"));
  }
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

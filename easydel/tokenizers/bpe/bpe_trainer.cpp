#include "easydel/tokenizers/bpe/bpe_trainer.h"

#include <algorithm>
#include <thread>

#include "easydel/core/error.h"
#include "easydel/core/text/utf8.h"
#include "easydel/tokenizers/bpe/bpe_merges.h"

namespace easydel {
namespace {

void check(const BpeTrainerOptions& options) {
  std::vector<std::string> distinct;
  for (const std::string& token : options.special_tokens) {
    require<ConfigError>(!token.empty() && invalid_utf8(token) == std::string::npos,
                         "[train_byte_level_bpe] a special token must be valid UTF-8; got \"", token, "\".");
    if (std::find(distinct.begin(), distinct.end(), token) == distinct.end()) distinct.push_back(token);
  }
  const auto least = static_cast<int64_t>(256 + distinct.size());
  require<ConfigError>(options.vocab_size >= least && options.vocab_size < (int64_t{1} << 31),
                       "[train_byte_level_bpe] vocab_size must be at least ", least, ", for 256 bytes and ",
                       distinct.size(), " special tokens; got ", options.vocab_size, ".");
  require<ConfigError>(options.min_frequency >= 0, "[train_byte_level_bpe] min_frequency must not be negative; got ",
                       options.min_frequency, ".");
  require<ConfigError>(options.max_token_length >= 0,
                       "[train_byte_level_bpe] max_token_length must not be negative; got ", options.max_token_length,
                       ".");
  require<ConfigError>(options.threads >= 0 && options.threads <= 1024,
                       "[train_byte_level_bpe] threads must be between 0 and 1024; got ", options.threads, ".");
  require<ConfigError>(!options.pattern.empty(), "[train_byte_level_bpe] the pattern must not be empty.");
}

int threads_of(const BpeTrainerOptions& options) {
  if (options.threads > 0) return options.threads;
  return std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, 64);
}

Json byte_level(bool add_prefix_space, bool trim_offsets, bool use_regex) {
  return Json::object({{"type", "ByteLevel"},
                       {"add_prefix_space", add_prefix_space},
                       {"trim_offsets", trim_offsets},
                       {"use_regex", use_regex}});
}

Json pre_tokenizer(const std::string& pattern) {
  if (pattern == "gpt2") return byte_level(false, true, true);  // its own pattern
  const Json split = Json::object({{"type", "Split"},
                                   {"pattern", Json::object({{"Regex", bpe_pattern(pattern)}})},
                                   {"behavior", "Isolated"},
                                   {"invert", false}});
  return Json::object({{"type", "Sequence"}, {"pretokenizers", Json::array({split, byte_level(false, true, false)})}});
}

Json added_tokens(const TrainedBpe& model, const std::vector<std::string>& special_tokens) {
  Json tokens = Json::array();
  for (std::size_t id = 0; id < std::min(special_tokens.size(), model.tokens.size()); ++id) {
    if (std::find(special_tokens.begin(), special_tokens.end(), model.tokens[id]) == special_tokens.end()) break;
    tokens.push_back(Json::object({{"id", id},
                                   {"content", model.tokens[id]},
                                   {"single_word", false},
                                   {"lstrip", false},
                                   {"rstrip", false},
                                   {"normalized", false},
                                   {"special", true}}));
  }
  return tokens;
}

Json tokenizer_json(const TrainedBpe& model, const BpeTrainerOptions& options) {
  Json vocab = Json::object();
  for (std::size_t id = 0; id < model.tokens.size(); ++id) vocab[model.tokens[id]] = id;
  Json merges = Json::array();
  for (const auto& [left, right] : model.merges) {
    merges.push_back(Json::array({model.tokens[left], model.tokens[right]}));
  }
  return Json::object({{"version", "1.0"},
                       {"truncation", nullptr},
                       {"padding", nullptr},
                       {"added_tokens", added_tokens(model, options.special_tokens)},
                       {"normalizer", nullptr},
                       {"pre_tokenizer", pre_tokenizer(options.pattern)},
                       {"post_processor", byte_level(true, false, true)},
                       {"decoder", byte_level(true, true, true)},
                       {"model", Json::object({{"type", "BPE"},
                                               {"dropout", nullptr},
                                               {"unk_token", nullptr},
                                               {"continuing_subword_prefix", nullptr},
                                               {"end_of_word_suffix", nullptr},
                                               {"fuse_unk", false},
                                               {"byte_fallback", false},
                                               {"ignore_merges", false},
                                               {"vocab", std::move(vocab)},
                                               {"merges", std::move(merges)}})}});
}

template <class Texts>
Json train(const Texts& texts, int64_t bytes, const BpeTrainerOptions& options) {
  check(options);
  WordCounts words = [&] {
    Progress progress("counting words", {.total = bytes, .unit = "B", .enabled = options.show_progress});
    return count_words(texts, bpe_pattern(options.pattern), threads_of(options), progress);
  }();
  require<ConfigError>(!words.words().empty(),
                       "[train_byte_level_bpe] the texts are empty; there is nothing to train on.");
  const auto known = static_cast<int64_t>(256 + options.special_tokens.size());
  Progress progress(
      "merging",
      {.total = std::max<int64_t>(1, options.vocab_size - known), .unit = "tokens", .enabled = options.show_progress});
  return tokenizer_json(find_bpe_merges(std::move(words), options.special_tokens,
                                        {.vocab_size = static_cast<std::size_t>(options.vocab_size),
                                         .min_frequency = static_cast<uint64_t>(options.min_frequency),
                                         .max_token_length = static_cast<std::size_t>(options.max_token_length)},
                                        progress),
                        options);
}

}  // namespace

Json train_byte_level_bpe(const std::vector<std::filesystem::path>& files, const BpeTrainerOptions& options) {
  require<ConfigError>(!files.empty(), "[train_byte_level_bpe] no files were given.");
  int64_t bytes = 0;
  for (const auto& file : files) {
    std::error_code error;
    const auto size = std::filesystem::file_size(file, error);  // opening it reports the error
    if (!error) bytes += static_cast<int64_t>(size);
  }
  return train(files, bytes, options);
}

Json train_byte_level_bpe(const NextText& next, const BpeTrainerOptions& options) { return train(next, 0, options); }

}  // namespace easydel

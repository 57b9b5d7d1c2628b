// easydel tokenizer-train: a byte-level BPE from text files, as a directory that transformers loads.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>

#include "easydel/cli/commands.h"
#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/tokenizers/bpe/bpe_trainer.h"

namespace easydel::cli {
namespace {

struct TokenizerTrainArguments {
  std::string destination;
  std::vector<std::string> files;
  std::string bos_token, eos_token, pad_token;
  BpeTrainerOptions training{.vocab_size = 32000, .show_progress = true};
};

// Tokens given for a role are special tokens too; the default is <|endoftext|>.
void complete(TokenizerTrainArguments& arguments) {
  auto& tokens = arguments.training.special_tokens;
  if (tokens.empty() && arguments.eos_token.empty()) arguments.eos_token = "<|endoftext|>";
  for (const std::string& token : {arguments.eos_token, arguments.bos_token, arguments.pad_token}) {
    if (!token.empty() && std::find(tokens.begin(), tokens.end(), token) == tokens.end()) tokens.push_back(token);
  }
  if (arguments.eos_token.empty()) arguments.eos_token = tokens.front();
}

Json tokenizer_config(const TokenizerTrainArguments& arguments, const Json& tokenizer) {
  Json config = Json::object({{"tokenizer_class", "PreTrainedTokenizerFast"},
                              {"add_prefix_space", false},
                              {"clean_up_tokenization_spaces", false}});
  if (!arguments.bos_token.empty()) config["bos_token"] = arguments.bos_token;
  config["eos_token"] = arguments.eos_token;
  if (!arguments.pad_token.empty()) config["pad_token"] = arguments.pad_token;
  Json added = Json::object();
  for (const Json& token : tokenizer.at("added_tokens").as_array()) {
    Json entry = token;
    entry.as_object().erase("id");
    added[std::to_string(token.at("id").as_int())] = std::move(entry);
  }
  config["added_tokens_decoder"] = std::move(added);
  return config;
}

void train(TokenizerTrainArguments& arguments) {
  complete(arguments);
  const std::filesystem::path destination = arguments.destination;
  make_directory(destination);
  AtomicFile file(destination / "tokenizer.json");  // an unwritable destination fails before training, not after it
  const Json tokenizer = [&] {
    try {
      return train_byte_level_bpe({arguments.files.begin(), arguments.files.end()}, arguments.training);
    } catch (const ConfigError& error) {  // an invalid value came from the command line
      throw UsageError(error.what());
    }
  }();
  const std::string text = tokenizer.dump(2);
  file.write(text.data(), text.size());
  file.commit();
  write_file_atomically(destination / "tokenizer_config.json", tokenizer_config(arguments, tokenizer).dump(2) + "\n");
  std::cout << "wrote a vocabulary of " << tokenizer.at("model").at("vocab").size() << " tokens and "
            << tokenizer.at("model").at("merges").size() << " merges to " << arguments.destination << "\n";
}

}  // namespace

void add_tokenizer_train_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("tokenizer-train", "Train a byte-level BPE tokenizer on text files");
  auto arguments = std::make_shared<TokenizerTrainArguments>();
  auto& training = arguments->training;
  command->add_option("destination", arguments->destination, "Output directory")->required()->type_name("OUT");
  command->add_option("--files", arguments->files, "UTF-8 text files; every line is a separate text")
      ->required()
      ->type_name("FILE");
  command
      ->add_option("--vocab-size", training.vocab_size,
                   "Vocabulary size, including the special tokens and the 256 bytes")
      ->capture_default_str();
  command->add_option("--min-frequency", training.min_frequency, "Pairs that occur less often are not merged")
      ->capture_default_str();
  command
      ->add_option("--special-token", training.special_tokens,
                   "A special token, such as <|endoftext|>; can be repeated")
      ->allow_extra_args(false)
      ->type_name("TEXT");
  command->add_option("--eos-token", arguments->eos_token, "End-of-text token (default: the first special token)");
  command->add_option("--bos-token", arguments->bos_token, "Beginning-of-text token");
  command->add_option("--pad-token", arguments->pad_token, "Padding token");
  command
      ->add_option("--pattern", training.pattern,
                   "How text is split into words: gpt2, llama3, qwen2 or a regular expression")
      ->capture_default_str();
  command
      ->add_option("--max-token-length", training.max_token_length,
                   "Merged tokens are shorter than this many bytes; 0: unlimited")
      ->capture_default_str();
  command->add_option("--threads", training.threads, "Threads for counting words; 0: one per core")
      ->capture_default_str();
  command->callback([arguments] { train(*arguments); });
}

}  // namespace easydel::cli

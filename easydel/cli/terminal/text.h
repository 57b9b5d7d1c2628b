// Text input and output for commands that take a prompt.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "easydel/cli/options/model_options.h"
#include "easydel/tokenizers/auto_tokenizer.h"
#include "easydel/tokenizers/decode_stream.h"

namespace easydel::cli {

// The model's own tokenizer; absent when it has none.
std::optional<AutoTokenizer> load_tokenizer(const ModelOptions& options);

// Prints tokens of one row as they come: text once its characters are complete, or ids.
class Printer {
 public:
  explicit Printer(const Tokenizer* tokenizer)
      : stream_(tokenizer ? std::optional<DecodeStream>(*tokenizer) : std::nullopt) {}
  void add(int64_t id);
  void end();  // and a line break
  const std::string& text() const { return text_; }

 private:
  void print(const std::string& text);
  std::optional<DecodeStream> stream_;
  std::string text_;
  bool first_ = true;
};

}  // namespace easydel::cli

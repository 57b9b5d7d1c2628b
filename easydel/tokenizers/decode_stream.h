// Text from ids as they come, for who prints while a model still writes.
#pragma once

#include <string>
#include <vector>

#include "easydel/tokenizers/tokenizer.h"

namespace easydel {

// What the steps return, joined, is what decoding all ids at once gives; no step ends inside of a character.
class DecodeStream {
 public:
  explicit DecodeStream(const Tokenizer& tokenizer, bool skip_special_tokens = true)
      : tokenizer_(&tokenizer), skip_special_tokens_(skip_special_tokens) {}

  // The text that this id completes, "" when there is none yet. FormatError when the tokenizer's decoder takes back
  // what it gave before.
  std::string step(int32_t id);
  // What is left over at the end: characters that never were completed, as U+FFFD.
  std::string finish();

 private:
  const Tokenizer* tokenizer_;
  bool skip_special_tokens_;
  std::vector<int32_t> ids_;    // enough of the last ones that their text does not depend on those before
  std::string prefix_;          // what of their text was returned already
  std::size_t prefix_ids_ = 0;  // and how many of them it came from
};

}  // namespace easydel

// Incremental decoding: text from ids as they are generated.
#pragma once

#include <string>
#include <vector>

#include "easydel/tokenizers/tokenizer.h"

namespace easydel {

// The concatenated results equal decoding all ids at once; no step ends inside a character.
class DecodeStream {
 public:
  explicit DecodeStream(const Tokenizer& tokenizer, bool skip_special_tokens = true)
      : tokenizer_(&tokenizer), skip_special_tokens_(skip_special_tokens) {}

  // The text that this id completes, "" when there is none yet. FormatError when the tokenizer's decoder changes
  // earlier output.
  std::string step(int32_t id);
  // The rest at the end: incomplete characters, as U+FFFD.
  std::string finish();

 private:
  const Tokenizer* tokenizer_;
  bool skip_special_tokens_;
  std::vector<int32_t> ids_;    // enough of the last ones that their text does not depend on earlier ones
  std::string prefix_;          // the part of their text already returned
  std::size_t prefix_ids_ = 0;  // and the number of ids it came from
};

}  // namespace easydel

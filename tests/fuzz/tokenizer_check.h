// Invariants of every tokenizer and every text, for the two tokenizer targets.
#pragma once

#include "easydel/tokenizers/decode_stream.h"
#include "easydel/tokenizers/files/json_tokenizer.h"
#include "fuzz.h"

namespace easydel::fuzz {

inline void check_encoding(const Encoding& encoding, std::size_t most) {
  const std::size_t size = encoding.ids.size();
  if (encoding.offsets.size() != size || encoding.type_ids.size() != size || encoding.word_ids.size() != size ||
      encoding.special_tokens_mask.size() != size || encoding.attention_mask.size() != size) {
    found("the fields of an encoding are not equally long");
  }
  for (const Offset offset : encoding.offsets) {
    if (offset.begin > offset.end || offset.end > most) found("an offset is outside of the text");
  }
  for (const Encoding& part : encoding.overflowing) check_encoding(part, most);
}

inline void try_text(const JsonTokenizer& tokenizer, std::string_view text) {
  const Encoding encoding = tokenizer.encode(text);
  check_encoding(encoding, text.size());
  if (tokenizer.encode_ids(text) != encoding.ids) found("ids depend on whether offsets are asked for");
  touch(tokenizer.decode(encoding.ids, false));
  DecodeStream stream(tokenizer);
  for (std::size_t i = 0; i < encoding.ids.size() && i < 64; ++i) touch(stream.step(encoding.ids[i]));
  touch(stream.finish());
}

}  // namespace easydel::fuzz

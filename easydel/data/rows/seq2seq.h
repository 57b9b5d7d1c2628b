// Rows for encoder-decoders: what the encoder reads, and what the decoder is to write.
#pragma once

#include <cstdint>
#include <optional>

#include "easydel/data/rows/example.h"
#include "easydel/data/rows/row_ids.h"

namespace easydel::data {

struct Seq2SeqOptions {
  CodecOptions codec;
  TextLimit limit;                         // of the source, and of the target
  std::optional<bool> add_special_tokens;  // to texts; none: the tokenizer's default
};

// input_ids and labels, each of its own length, of rows with
//   - prompt and completion: texts, or a list of messages and the assistant's answer;
//   - messages (or conversations): the last of them is the answer, those before it the source;
//   - input_ids and labels.
// A target ends with the end-of-sequence token. FormatError with the row's location and its fields.
Transform make_seq2seq_transform(const AutoTokenizer& tokenizer, const Seq2SeqOptions& options = {});

// The ids of a text, with the end-of-sequence token behind them if the tokenizer does not put it there.
Ids encode_target(const TextCodec& codec, std::string_view text, bool add_special_tokens, const TextLimit& limit);

// The text of a completion: a string, or a list of one message of the assistant.
std::string answer_of(const Row& row, const Json& completion, const std::string& name);

}  // namespace easydel::data

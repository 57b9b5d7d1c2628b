// Validates a tokenizer.model before sentencepiece's own library loads it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace easydel {

struct SentencePieceModelFacts {
  std::size_t pieces = 0;
  bool add_dummy_prefix = true;
  bool byte_fallback = false;
  bool has_byte_names = false;  // pieces with names such as <0x41>
  bool tests_itself = false;    // on samples, when the library loads it
  std::size_t growth = 3;       // the maximum bytes that one byte of text becomes when normalized
};

// The library follows the double array of the normalizer without bounds checks, has room for a fixed number of matches,
// and aborts on some vocabularies. FormatError names `where` and what is wrong.
SentencePieceModelFacts check_sentencepiece_model(std::string_view bytes, const std::string& where);

}  // namespace easydel

// What has to hold for a tokenizer.model before sentencepiece's own library may see it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace easydel {

struct SentencePieceModelFacts {
  std::size_t pieces = 0;
  bool add_dummy_prefix = true;
  bool byte_fallback = false;
  bool has_byte_names = false;  // pieces that are called <0x41> or so
  bool tests_itself = false;    // on samples, when the library loads it
  std::size_t growth = 3;       // the most bytes that one byte of text becomes when it is normalized
};

// The library follows the double array of the normalizer without looking where it leads, has room for a fixed number of
// matches, and aborts on some vocabularies. FormatError names `where` and what is wrong.
SentencePieceModelFacts check_sentencepiece_model(std::string_view bytes, const std::string& where);

}  // namespace easydel

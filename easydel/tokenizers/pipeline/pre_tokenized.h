// A text split into pieces, as it passes through the pre-tokenizers.
#pragma once

#include <cstdint>

#include <string>
#include <string_view>
#include <vector>

#include "easydel/tokenizers/tokenizer.h"

namespace easydel {

struct Piece {
  uint32_t begin, end;  // bytes of PreTokenized::text
  uint32_t origin;      // where its original starts
  int32_t token = -1;   // an added token, which is not split further
};

class PreTokenized {
 public:
  PreTokenized(std::string_view original, bool tracked)
      : text_(original), original_size_(original.size()), tracked_(tracked) {}
  PreTokenized(const PreTokenized&) = delete;
  PreTokenized& operator=(const PreTokenized&) = delete;

  std::string_view text() const { return text_; }
  std::string_view text(const Piece& piece) const { return text_.substr(piece.begin, piece.end - piece.begin); }
  bool is_tracked() const { return tracked_; }
  std::vector<Piece>& pieces() { return pieces_; }
  const std::vector<Piece>& pieces() const { return pieces_; }

  // The original's bytes for bytes [begin, end) of a piece.
  Offset original(const Piece& piece, uint32_t begin, uint32_t end) const;
  uint32_t origin_at(uint32_t byte) const;  // of a piece that starts there
  // The original range for a character inserted before `byte` of the text.
  Offset align(uint32_t byte) const;

  // A new text for the same original; `align` has one entry for each byte where offsets are kept. Pieces are the
  // caller's to change.
  void rewrite(std::string text, std::vector<Offset> align);

 private:
  std::string_view text_;
  std::size_t original_size_;
  std::string storage_;
  std::vector<Offset> align_;
  std::vector<Piece> pieces_;
  bool tracked_;
  bool rewritten_ = false;
};

}  // namespace easydel

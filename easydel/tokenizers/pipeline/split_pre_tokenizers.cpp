// The pre-tokenizers that split by a pattern: Split, and ByteLevel, which also writes bytes as characters.
#include "easydel/text/unicode/unicode.h"
#include "easydel/tokenizers/bpe/byte_level.h"
#include "easydel/tokenizers/pipeline/pattern.h"
#include "easydel/tokenizers/pipeline/pre_tokenizer.h"
#include "easydel/tokenizers/pipeline/split_scanner.h"

namespace easydel {
namespace {

// Words of a known pattern, one after the other.
void split_words(PreTokenized& text, KnownSplit split) {
  std::vector<Piece> pieces;
  pieces.reserve(text.pieces().size() + text.text().size() / 4);
  for (const Piece& piece : text.pieces()) {
    if (piece.token >= 0) {
      pieces.push_back(piece);
      continue;
    }
    const std::string_view whole = text.text(piece);
    for (std::size_t at = 0; at < whole.size();) {
      const std::size_t end = end_of_word(split, whole, at);
      const uint32_t begin = piece.begin + static_cast<uint32_t>(at);
      pieces.push_back({begin, piece.begin + static_cast<uint32_t>(end), text.origin_at(begin)});
      at = end;
    }
  }
  text.pieces() = std::move(pieces);
}

void cut_at_matches(const std::vector<Offset>& matches, std::size_t size, bool invert,
                    std::vector<Stretch>& stretches) {
  uint32_t done = 0;
  for (const Offset match : matches) {
    if (done != match.begin) stretches.push_back({done, match.begin, invert});
    stretches.push_back({match.begin, match.end, !invert});
    done = match.end;
  }
  if (done != size) stretches.push_back({done, static_cast<uint32_t>(size), invert});
}

class Split final : public PreTokenizer {
 public:
  explicit Split(const JsonField& field)
      : behavior_(read_behavior(field["behavior"])), invert_(field["invert"].as_bool()) {
    const JsonField pattern = field["pattern"];
    if (const auto regex = pattern.find("Regex")) known_ = known_split(regex->as_string());
    // These patterns match everything, so the split is the same for every behavior except "removed".
    const bool apart = behavior_ == SplitBehavior::kIsolated || (behavior_ == SplitBehavior::kRemoved && invert_);
    if (!apart) known_.reset();
    if (!known_) pattern_.emplace(pattern);
  }

  void apply(PreTokenized& text) const override {
    if (known_) return split_words(text, *known_);
    std::vector<Offset> matches;
    split_pieces(text, behavior_, [&](std::string_view piece, std::vector<Stretch>& stretches) {
      matches.clear();
      pattern_->find_all(piece, matches);
      cut_at_matches(matches, piece.size(), invert_, stretches);
    });
  }

 private:
  SplitBehavior behavior_;
  bool invert_;
  std::optional<KnownSplit> known_;
  std::optional<Pattern> pattern_;
};

class ByteLevel final : public PreTokenizer {
 public:
  explicit ByteLevel(const JsonField& field)
      : add_prefix_space_(field["add_prefix_space"].as_bool()), use_regex_(field.bool_or("use_regex", true)) {
    if (use_regex_) unicode::require_tables(field.path());
  }

  void apply(PreTokenized& text) const override {
    if (add_prefix_space_) put_space_before(text);
    if (use_regex_) split_words(text, KnownSplit::kGpt2);
    write_bytes(text);
  }

 private:
  static void put_space_before(PreTokenized& text) {
    const auto lacks_space = [&](const Piece& piece) {
      return piece.token < 0 && piece.begin < piece.end && text.text()[piece.begin] != ' ';
    };
    std::string out;
    std::vector<Offset> align;
    out.reserve(text.text().size() + text.pieces().size());
    for (Piece& piece : text.pieces()) {
      const bool add = lacks_space(piece);
      const auto begin = static_cast<uint32_t>(out.size());
      if (add) {
        out += ' ';
        if (text.is_tracked()) align.push_back(text.align(piece.begin));
      }
      out += text.text(piece);
      if (text.is_tracked()) {
        for (uint32_t byte = piece.begin; byte < piece.end; ++byte) align.push_back(text.align(byte));
      }
      piece.begin = begin;
      piece.end = static_cast<uint32_t>(out.size());
    }
    text.rewrite(std::move(out), std::move(align));
  }

  static void write_bytes(PreTokenized& text) {
    std::string out;
    std::vector<Offset> align;
    const std::string_view old = text.text();
    out.reserve(old.size() * 5 / 4 + 16);
    if (text.is_tracked()) align.reserve(out.capacity());
    for (Piece& piece : text.pieces()) {
      const auto begin = static_cast<uint32_t>(out.size());
      if (piece.token >= 0) {
        out += text.text(piece);
        if (text.is_tracked()) {
          for (uint32_t byte = piece.begin; byte < piece.end; ++byte) align.push_back(text.align(byte));
        }
      } else {
        for (uint32_t i = piece.begin; i < piece.end; ++i) {
          const auto byte = static_cast<unsigned char>(old[i]);
          if (byte > ' ' && byte < 0x7F) {
            out += static_cast<char>(byte);
            if (text.is_tracked()) align.push_back(text.align(i));
          } else {
            const std::string_view character = byte_level::text_of(byte);
            out += character;
            if (text.is_tracked()) align.insert(align.end(), character.size(), text.align(i));
          }
        }
      }
      piece.begin = begin;
      piece.end = static_cast<uint32_t>(out.size());
    }
    text.rewrite(std::move(out), std::move(align));
  }

  bool add_prefix_space_, use_regex_;
};

}  // namespace

std::unique_ptr<PreTokenizer> make_byte_level_pre_tokenizer(const JsonField& field) {
  return std::make_unique<ByteLevel>(field);
}

std::unique_ptr<PreTokenizer> make_split_pre_tokenizer(const JsonField& field) {
  return std::make_unique<Split>(field);
}

}  // namespace easydel

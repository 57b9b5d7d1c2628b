#include "easydel/tokenizers/pipeline/pre_tokenizer.h"

#include <algorithm>

#include "easydel/text/unicode/unicode.h"

namespace easydel {
namespace {

class SequencePreTokenizer final : public PreTokenizer {
 public:
  explicit SequencePreTokenizer(const JsonField& field) {
    const JsonField parts = field["pretokenizers"];
    for (std::size_t i = 0; i < parts.as_array().size(); ++i) parts_.push_back(make_pre_tokenizer(parts[i]));
  }
  void apply(PreTokenized& text) const override {
    for (const auto& part : parts_) part->apply(text);
  }
  bool needs_origin() const override {
    return std::any_of(parts_.begin(), parts_.end(), [](const auto& part) { return part->needs_origin(); });
  }

 private:
  std::vector<std::unique_ptr<PreTokenizer>> parts_;
};

// Splits at the characters of a class.
template <class IsMatch>
class CharacterSplit final : public PreTokenizer {
 public:
  CharacterSplit(SplitBehavior behavior, IsMatch is_match) : behavior_(behavior), is_match_(is_match) {}
  void apply(PreTokenized& text) const override {
    split_pieces(text, behavior_, [&](std::string_view piece, std::vector<Stretch>& stretches) {
      cut_at_characters(piece, stretches, is_match_);
    });
  }

 private:
  SplitBehavior behavior_;
  IsMatch is_match_;
};

template <class IsMatch>
std::unique_ptr<PreTokenizer> at_characters(SplitBehavior behavior, IsMatch is_match) {
  return std::make_unique<CharacterSplit<IsMatch>>(behavior, is_match);
}

class BertPreTokenizer final : public PreTokenizer {
 public:
  explicit BertPreTokenizer(const JsonField& field) { unicode::require_tables(field.path()); }
  void apply(PreTokenized& text) const override {
    const auto cut = [](std::string_view piece, std::vector<Stretch>& stretches) {
      uint32_t begin = 0;
      const auto end_word = [&](uint32_t end) {
        if (begin < end) stretches.push_back({begin, end, false});
      };
      for (std::size_t at = 0; at < piece.size();) {
        const auto start = static_cast<uint32_t>(at);
        const char32_t code = utf8::next(piece, at);
        const bool blank = unicode::is_whitespace(code);
        if (!blank && !unicode::is_punctuation(code)) continue;
        end_word(start);
        begin = static_cast<uint32_t>(at);
        if (!blank) stretches.push_back({start, begin, false});
      }
      end_word(static_cast<uint32_t>(piece.size()));
    };
    split_pieces(text, SplitBehavior::kIsolated, cut);
  }
};

// \w+|[^\w\s]+, and white space is dropped.
class Whitespace final : public PreTokenizer {
 public:
  explicit Whitespace(const JsonField& field) { unicode::require_tables(field.path()); }
  void apply(PreTokenized& text) const override {
    const auto kind = [](char32_t code) { return unicode::is_word(code) ? 1 : unicode::is_whitespace(code) ? 2 : 0; };
    const auto cut = [&](std::string_view piece, std::vector<Stretch>& stretches) {
      for (std::size_t at = 0; at < piece.size();) {
        const auto begin = static_cast<uint32_t>(at);
        const int first = kind(utf8::next(piece, at));
        while (at < piece.size()) {
          std::size_t behind = at;
          if (kind(utf8::next(piece, behind)) != first) break;
          at = behind;
        }
        stretches.push_back({begin, static_cast<uint32_t>(at), first == 2});
      }
    };
    split_pieces(text, SplitBehavior::kRemoved, cut);
  }
};

class FixedLength final : public PreTokenizer {
 public:
  explicit FixedLength(const JsonField& field) {
    if (const auto length = field.find("length")) length_ = length->as_int(1, INT32_MAX);
  }
  void apply(PreTokenized& text) const override {
    const auto cut = [this](std::string_view piece, std::vector<Stretch>& stretches) {
      for (std::size_t at = 0; at < piece.size();) {
        const auto begin = static_cast<uint32_t>(at);
        for (int64_t i = 0; i < length_ && at < piece.size(); ++i) at += utf8::length_of_lead(piece[at]);
        stretches.push_back({begin, static_cast<uint32_t>(at), false});
      }
    };
    split_pieces(text, SplitBehavior::kIsolated, cut);
  }

 private:
  int64_t length_ = 5;
};

}  // namespace

SplitBehavior read_behavior(const JsonField& field) {
  return static_cast<SplitBehavior>(
      field.one_of({"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"}));
}

void apply_behavior(std::vector<Stretch>& stretches, SplitBehavior behavior) {
  if (behavior == SplitBehavior::kRemoved || stretches.empty()) return;
  if (behavior == SplitBehavior::kIsolated) {
    for (Stretch& stretch : stretches) stretch.is_match = false;
    return;
  }
  const bool backwards = behavior == SplitBehavior::kMergedWithNext;
  if (backwards) std::reverse(stretches.begin(), stretches.end());
  std::size_t kept = 0;
  bool previous = false;
  for (const Stretch stretch : stretches) {
    const bool joins =
        behavior == SplitBehavior::kContiguous ? stretch.is_match == previous : stretch.is_match && !previous;
    previous = stretch.is_match;
    if (joins && kept > 0) {
      (backwards ? stretches[kept - 1].begin : stretches[kept - 1].end) = backwards ? stretch.begin : stretch.end;
    } else {
      stretches[kept++] = {stretch.begin, stretch.end, false};
    }
  }
  stretches.resize(kept);
  if (backwards) std::reverse(stretches.begin(), stretches.end());
}

std::unique_ptr<PreTokenizer> make_pre_tokenizer(const JsonField& field) {
  const auto with_tables = [&](SplitBehavior behavior, auto is_match) {
    unicode::require_tables(field.path());
    return at_characters(behavior, is_match);
  };
  switch (field["type"].one_of({"Sequence", "ByteLevel", "Split", "Metaspace", "BertPreTokenizer", "Whitespace",
                                "WhitespaceSplit", "Punctuation", "Digits", "CharDelimiterSplit", "UnicodeScripts",
                                "FixedLength"})) {
    case 0: return std::make_unique<SequencePreTokenizer>(field);
    case 1: return make_byte_level_pre_tokenizer(field);
    case 2: return make_split_pre_tokenizer(field);
    case 3: return make_metaspace_pre_tokenizer(field);
    case 4: return std::make_unique<BertPreTokenizer>(field);
    case 5: return std::make_unique<Whitespace>(field);
    case 6: return at_characters(SplitBehavior::kRemoved, unicode::is_whitespace);
    case 7: {
      const auto behavior = field.find("behavior");
      return with_tables(behavior ? read_behavior(*behavior) : SplitBehavior::kIsolated, unicode::is_punctuation);
    }
    case 8: {
      const bool each = field["individual_digits"].as_bool();
      return with_tables(each ? SplitBehavior::kIsolated : SplitBehavior::kContiguous, unicode::is_numeric);
    }
    case 9: {
      const char32_t delimiter = field["delimiter"].as_char();
      return at_characters(SplitBehavior::kRemoved, [delimiter](char32_t code) { return code == delimiter; });
    }
    case 10: return make_scripts_pre_tokenizer();
    default: return std::make_unique<FixedLength>(field);
  }
}

}  // namespace easydel

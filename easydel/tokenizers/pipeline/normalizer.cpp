#include "easydel/tokenizers/pipeline/normalizer.h"

#include "easydel/tokenizers/bpe/byte_level.h"
#include "easydel/tokenizers/pipeline/pattern.h"

namespace easydel {
namespace {

using unicode::Change;

class SequenceNormalizer final : public Normalizer {
 public:
  explicit SequenceNormalizer(const JsonField& field) {
    const JsonField parts = field["normalizers"];
    for (std::size_t i = 0; i < parts.as_array().size(); ++i) parts_.push_back(make_normalizer(parts[i]));
  }
  void normalize(AlignedText& text) const override {
    for (const auto& part : parts_) part->normalize(text);
  }
  bool needs_alignment() const override {
    for (const auto& part : parts_) {
      if (part->needs_alignment()) return true;
    }
    return false;
  }

 private:
  std::vector<std::unique_ptr<Normalizer>> parts_;
};

class FormNormalizer final : public Normalizer {
 public:
  FormNormalizer(const JsonField& field, unicode::Form form) : form_(form) { unicode::require_tables(field.path()); }
  void normalize(AlignedText& text) const override {
    if (!unicode::is_normal(text.view(), form_)) text.transform(unicode::normalize(text.view(), form_));
  }

 private:
  unicode::Form form_;
};

class Lowercase final : public Normalizer {
 public:
  explicit Lowercase(const JsonField& field) { unicode::require_tables(field.path()); }
  void normalize(AlignedText& text) const override { lowercase(text); }
};

class Strip final : public Normalizer {
 public:
  explicit Strip(const JsonField& field)
      : left_(field["strip_left"].as_bool()), right_(field["strip_right"].as_bool()) {}
  void normalize(AlignedText& text) const override {
    const std::string_view view = text.view();
    std::size_t begin = 0;
    std::size_t end = view.size();
    std::size_t skipped = 0;
    while (left_ && begin < view.size()) {
      std::size_t behind = begin;
      if (!unicode::is_whitespace(utf8::next(view, behind))) break;
      begin = behind;
      ++skipped;
    }
    while (right_ && end > begin) {
      std::size_t before = end;
      if (!unicode::is_whitespace(utf8::previous(view, before))) break;
      end = before;
    }
    if (begin == 0 && end == view.size()) return;
    std::vector<Change> kept;
    for (std::size_t at = begin; at < end;) kept.emplace_back(utf8::next(view, at), 0);
    text.transform(kept, skipped);
  }

 private:
  bool left_, right_;
};

class StripAccents final : public Normalizer {
 public:
  explicit StripAccents(const JsonField& field) { unicode::require_tables(field.path()); }
  void normalize(AlignedText& text) const override {
    text.filter([](char32_t code) { return !unicode::is_mark(code); });
  }
};

class Nmt final : public Normalizer {
 public:
  void normalize(AlignedText& text) const override {
    text.filter([](char32_t c) {
      return !((c >= 1 && c <= 8) || c == 0x0B || (c >= 0x0E && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F);
    });
    text.map([](char32_t c) -> char32_t {
      const bool blank = c == 9 || c == 10 || c == 12 || c == 13 || c == 0x1680 || (c >= 0x200B && c <= 0x200F) ||
                         c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xFEFF || c == 0xFFFD;
      return blank ? U' ' : c;
    });
  }
};

class Replace final : public Normalizer {
 public:
  explicit Replace(const JsonField& field) : pattern_(field["pattern"]), content_(field["content"].as_string()) {}
  void normalize(AlignedText& text) const override {
    std::vector<Offset> matches;
    pattern_.find_all(text.view(), matches);
    text.replace(matches, content_);
  }
  bool needs_alignment() const override { return pattern_.is_regex(); }

 private:
  Pattern pattern_;
  std::string content_;
};

class Prepend final : public Normalizer {
 public:
  explicit Prepend(const JsonField& field) : prefix_(field["prepend"].as_string()) {}
  void normalize(AlignedText& text) const override { text.prepend(prefix_); }

 private:
  std::string prefix_;
};

class ByteLevelNormalizer final : public Normalizer {
 public:
  void normalize(AlignedText& text) const override {
    std::vector<Change> changes;
    changes.reserve(text.view().size());
    for (const char byte : text.view()) {
      changes.emplace_back(byte_level::character_of(static_cast<unsigned char>(byte)),
                           utf8::is_continuation(byte) ? 1 : 0);
    }
    text.transform(changes);
  }
};

}  // namespace

void lowercase(AlignedText& text) {
  bool changed = false;
  std::vector<Change> changes;
  changes.reserve(text.view().size());
  for (std::size_t at = 0; at < text.view().size();) {
    const char32_t code = utf8::next(text.view(), at);
    if (code == 0x130) {  // the only letter whose lower case has two characters
      changes.emplace_back(U'i', 0);
      changes.emplace_back(0x307, 1);
      changed = true;
      continue;
    }
    changes.emplace_back(unicode::to_lower(code), 0);
    changed = changed || changes.back().first != code;
  }
  if (changed) text.transform(changes);
}

std::unique_ptr<Normalizer> make_normalizer(const JsonField& field) {
  switch (field["type"].one_of({"Sequence", "NFC", "NFD", "NFKC", "NFKD", "Lowercase", "Strip", "StripAccents", "Nmt",
                                "Replace", "Prepend", "ByteLevel", "BertNormalizer", "Precompiled", "Bert"})) {
    case 0: return std::make_unique<SequenceNormalizer>(field);
    case 1: return std::make_unique<FormNormalizer>(field, unicode::Form::kNFC);
    case 2: return std::make_unique<FormNormalizer>(field, unicode::Form::kNFD);
    case 3: return std::make_unique<FormNormalizer>(field, unicode::Form::kNFKC);
    case 4: return std::make_unique<FormNormalizer>(field, unicode::Form::kNFKD);
    case 5: return std::make_unique<Lowercase>(field);
    case 6: return std::make_unique<Strip>(field);
    case 7: return std::make_unique<StripAccents>(field);
    case 8: return std::make_unique<Nmt>();
    case 9: return std::make_unique<Replace>(field);
    case 10: return std::make_unique<Prepend>(field);
    case 11: return std::make_unique<ByteLevelNormalizer>();
    case 13: return make_precompiled(field);
    default: return make_bert_normalizer(field);
  }
}

}  // namespace easydel

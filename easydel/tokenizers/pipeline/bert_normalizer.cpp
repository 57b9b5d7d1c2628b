// BERT's cleaning: control characters, white space, Chinese characters, accents, case.
#include "easydel/tokenizers/pipeline/normalizer.h"

namespace easydel {
namespace {

bool is_chinese(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
         (c >= 0x2A700 && c <= 0x2B73F) || (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

bool is_control(char32_t c) { return c != '\t' && c != '\n' && c != '\r' && unicode::is_other(c); }

class BertNormalizer final : public Normalizer {
 public:
  explicit BertNormalizer(const JsonField& field)
      : clean_text_(field["clean_text"].as_bool()),
        chinese_(field["handle_chinese_chars"].as_bool()),
        lowercase_(field["lowercase"].as_bool()),
        strip_accents_(field.bool_or("strip_accents", lowercase_)) {
    unicode::require_tables(field.path());
  }

  void normalize(AlignedText& text) const override {
    if (clean_text_) {
      text.filter([](char32_t c) { return c != 0 && c != 0xFFFD && !is_control(c); });
      text.map([](char32_t c) { return unicode::is_whitespace(c) ? U' ' : c; });
    }
    if (chinese_) space_chinese(text);
    if (strip_accents_) {
      if (!unicode::is_normal(text.view(), unicode::Form::kNFD)) {
        text.transform(unicode::normalize(text.view(), unicode::Form::kNFD));
      }
      text.filter([](char32_t c) { return !unicode::is_nonspacing_mark(c); });
    }
    if (lowercase_) lowercase(text);
  }

 private:
  static void space_chinese(AlignedText& text) {
    std::vector<unicode::Change> changes;
    bool changed = false;
    for (std::size_t at = 0; at < text.view().size();) {
      const char32_t code = utf8::next(text.view(), at);
      if (is_chinese(code)) {
        changes.insert(changes.end(), {{U' ', 0}, {code, 1}, {U' ', 1}});
        changed = true;
      } else {
        changes.emplace_back(code, 0);
      }
    }
    if (changed) text.transform(changes);
  }

  bool clean_text_, chinese_, lowercase_, strip_accents_;
};

}  // namespace

std::unique_ptr<Normalizer> make_bert_normalizer(const JsonField& field) {
  return std::make_unique<BertNormalizer>(field);
}

}  // namespace easydel

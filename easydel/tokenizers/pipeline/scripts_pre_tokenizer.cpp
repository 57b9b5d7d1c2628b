// UnicodeScripts: splits where the script changes, as sentencepiece does in training.
#include <algorithm>
#include <array>

#include "easydel/tokenizers/pipeline/pre_tokenizer.h"

namespace easydel {
namespace {

struct Range {
  char32_t first, last;
  uint8_t script;
};

// Unicode's Scripts.txt of version 9, numbered; Hiragana and Katakana count as Han. Characters outside all ranges have
// no script.
constexpr Range kScripts[] = {
#include "easydel/text/unicode/unicode_scripts.inc"
};
constexpr uint8_t kHan = 42;

uint8_t script_of(char32_t code) {
  if (code == ' ') return 0;
  if (code == 0x30FC) return kHan;
  const Range* range = std::lower_bound(std::begin(kScripts), std::end(kScripts), code,
                                        [](const Range& r, char32_t c) { return r.last < c; });
  return range != std::end(kScripts) && range->first <= code ? range->script : 0;
}

class UnicodeScripts final : public PreTokenizer {
 public:
  void apply(PreTokenized& text) const override {
    const auto cut = [](std::string_view piece, std::vector<Stretch>& stretches) {
      uint8_t last = 0;
      bool started = false;
      uint32_t begin = 0;
      for (std::size_t at = 0; at < piece.size();) {
        const auto here = static_cast<uint32_t>(at);
        const uint8_t script = script_of(utf8::next(piece, at));
        if (script == 0) continue;
        if (script != last) {
          // Characters without a script at the very start are dropped.
          if (started) stretches.push_back({begin, here, false});
          started = true;
          begin = here;
        }
        last = script;
      }
      if (started) stretches.push_back({begin, static_cast<uint32_t>(piece.size()), false});
    };
    split_pieces(text, SplitBehavior::kIsolated, cut);
  }
};

}  // namespace

std::unique_ptr<PreTokenizer> make_scripts_pre_tokenizer() { return std::make_unique<UnicodeScripts>(); }

}  // namespace easydel

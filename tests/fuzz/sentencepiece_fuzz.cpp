#include "easydel/tokenizers/sentencepiece/sentencepiece_tokenizer.h"
#include "fuzz.h"

using namespace easydel;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  return fuzz::refuse_or([&] {
    const auto tokenizer = SentencePieceTokenizer::from_bytes(fuzz::as_text(data, size));
    for (const std::string_view text : {"the of <sep> ab abc", "\xff\xfe a\u0301 \u2460 <0x41>x", "aaaaaaaaaaaa   "}) {
      const auto encoding = tokenizer->encode(text);
      for (const Offset& offset : encoding.offsets) {
        if (offset.begin > offset.end || offset.end > text.size()) fuzz::found("an offset outside of the text");
      }
      fuzz::touch(tokenizer->decode(encoding.ids));
      fuzz::touch(tokenizer->decode(encoding.ids, false));
    }
    std::vector<int32_t> ids;
    for (int32_t i = 0; i < 40; ++i) ids.push_back(static_cast<int32_t>(i * 7 % tokenizer->vocab_size()));
    fuzz::touch(tokenizer->decode(ids));
  });
}

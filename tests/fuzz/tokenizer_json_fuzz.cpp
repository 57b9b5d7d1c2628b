// An untrusted tokenizer.json, and encoding some texts with it.
#include "easydel/core/log.h"
#include "tokenizer_check.h"

using namespace easydel;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  log::set_level(log::Level::Off);
  return fuzz::refuse_or([&] {
    const auto tokenizer = JsonTokenizer::from_json(fuzz::as_text(data, size));
    for (const char* text : {"Hello w\xC3\xB6rld 123", "  a<s>b e\xCC\x81\xE2\x80\x8D\xF0\x9F\x98\x80 ka</s>", "x"}) {
      fuzz::refuse_or([&] { fuzz::try_text(*tokenizer, text); });
    }
    fuzz::refuse_or([&] { fuzz::check_encoding(tokenizer->encode_pair({"a b c d e", "f g"}), 9); });
  });
}

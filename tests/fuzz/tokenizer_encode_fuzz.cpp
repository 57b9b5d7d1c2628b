// Untrusted text, for tokenizers of every model and with every component that inspects characters.
#include <array>
#include <memory>

#include "tokenizer_check.h"

using namespace easydel;

namespace {

std::string bytes_vocabulary() {
  std::string vocabulary =
      R"("<unk>": 0, "a": 1, "b": 2, "ab": 3, "e": 4, "▁": 5, "▁a": 6, "Ġ": 7, "Ġa": 8, "é": 9, "##b": 10)";
  for (int byte = 0; byte < 256; ++byte) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), ", \"<0x%02X>\": %d", static_cast<unsigned>(byte), 11 + byte);
    vocabulary += text.data();
  }
  return "{" + vocabulary + "}";
}

std::string tokenizer(const std::string& parts) {
  return R"({"added_tokens": [
    {"id": 0, "content": "<unk>", "single_word": false, "lstrip": true, "rstrip": true, "normalized": false, "special": true},
    {"id": 1, "content": "ab ", "single_word": true, "lstrip": false, "rstrip": true, "normalized": true, "special": false}],
    "decoder": {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Metaspace", "replacement": "▁"}]}, )" +
         parts + "}";
}

std::string bpe(const std::string& more) {
  return R"("model": {"type": "BPE", "unk_token": "<unk>", "vocab": )" + bytes_vocabulary() +
         R"(, "merges": [["a", "b"], ["▁", "a"], ["Ġ", "a"]], )" + more + "}";
}

const std::vector<std::shared_ptr<JsonTokenizer>>& tokenizers() {
  static const auto made = [] {
    const std::string fallback = R"("byte_fallback": true, "fuse_unk": true)";
    std::vector<std::shared_ptr<JsonTokenizer>> out;
    for (
        const std::string& parts : {
            bpe(fallback),
            bpe(R"("fuse_unk": true)") +
                R"(, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true})",
            bpe(fallback) +
                R"(, "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFKC"}, {"type": "Lowercase"}, {"type": "Strip", "strip_left": true, "strip_right": true}]}, "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": true})",
            bpe(fallback) +
                R"(, "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null, "lowercase": true}, "pre_tokenizer": {"type": "BertPreTokenizer"})",
            bpe(fallback) +
                R"(, "normalizer": {"type": "NFC"}, "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "UnicodeScripts"}, {"type": "Split", "pattern": {"Regex": "(?i:'s)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}++|\\w+|\\s+(?!\\S)|\\s"}, "behavior": "MergedWithNext", "invert": true}, {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]})",
            bpe(fallback) +
                R"(, "pre_tokenizer": {"type": "Split", "pattern": {"Regex": "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}, "behavior": "Isolated", "invert": false}, "post_processor": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true}, "truncation": {"max_length": 6, "strategy": "LongestFirst", "stride": 2, "direction": "Left"})",
            std::string(R"("model": {"type": "WordPiece", "unk_token": "<unk>", "vocab": )") + bytes_vocabulary() +
                R"(}, "pre_tokenizer": {"type": "Whitespace"})",
            std::string(
                R"("model": {"type": "Unigram", "unk_id": 0, "byte_fallback": true, "vocab": [["<unk>", 0], ["a", -1], ["ab", -1.5], ["b", -2], ["▁", -1], ["<0x00>", -3]]}, "pre_tokenizer": {"type": "Digits", "individual_digits": true}, "normalizer": {"type": "Nmt"})"),
        }) {
      out.push_back(JsonTokenizer::from_json(tokenizer(parts)));
    }
    return out;
  }();
  return made;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const JsonTokenizer& tokenizer = *tokenizers()[data[0] % tokenizers().size()];
  return fuzz::refuse_or([&] { fuzz::try_text(tokenizer, fuzz::as_text(data + 1, size - 1)); });
}

// How byte-level tokenizers of GGUF files split text: the names of tokenizer.ggml.pre.
#pragma once

#include <array>
#include <string_view>

namespace easydel {

inline constexpr std::string_view kLlama3Split =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kQwen2Split =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

struct GgufSplit {
  std::string_view name;
  std::string_view pattern;  // empty: gpt2's, which is built in
  bool single_digits = false;
  bool composes = false;  // to NFC
};
inline constexpr std::array<GgufSplit, 9> kGgufSplits{{{"llama-bpe", kLlama3Split},
                                                       {"llama3", kLlama3Split},
                                                       {"llama-v3", kLlama3Split},
                                                       {"qwen2", kQwen2Split, false, true},
                                                       {"deepseek-r1-qwen", kQwen2Split, false, true},
                                                       {"gpt-2", ""},
                                                       {"default", ""},
                                                       {"smollm", "", true},
                                                       {"starcoder", "", true}}};

}  // namespace easydel

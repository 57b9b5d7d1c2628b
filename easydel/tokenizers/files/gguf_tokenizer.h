// The tokenizer in the metadata of a GGUF file.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "easydel/io/gguf/gguf.h"
#include "easydel/tokenizers/files/tokenizer_config.h"
#include "easydel/tokenizers/tokenizer.h"

namespace easydel {

bool has_tokenizer(const GgufContainer& gguf);
// tokenizer.ggml.model "llama" (sentencepiece's BPE) and "gpt2" (BPE on bytes, with the splits of tokenizer.ggml.pre).
// NotSupportedError, which lists the known ones, for others; FormatError for inconsistent lists.
std::shared_ptr<const Tokenizer> gguf_tokenizer(const GgufContainer& gguf, const std::string& where);
TokenizerConfig gguf_tokenizer_config(const GgufContainer& gguf);  // special tokens and the chat template
// The same as the files of a model directory: tokenizer.json or tokenizer.model, and tokenizer_config.json; by name.
std::map<std::string, std::string> gguf_tokenizer_files(const GgufContainer& gguf, const std::string& where);

}  // namespace easydel

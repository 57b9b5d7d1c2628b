// The tokenizer of a model directory as the metadata of a GGUF file.
#pragma once

#include <cstdint>
#include <filesystem>

#include "easydel/io/gguf/gguf_metadata.h"

namespace easydel {

// From tokenizer.model (sentencepiece's BPE) or tokenizer.json (BPE on bytes), with special tokens and the chat
// template of the files next to it; `rows` is the number of the model's tokens, and those without a text become unused
// ones. NotSupportedError for a tokenizer that llama.cpp's names do not cover; IoError when there is none.
void add_gguf_vocabulary(GgufMetadata& metadata, const std::filesystem::path& directory, int64_t rows);

}  // namespace easydel

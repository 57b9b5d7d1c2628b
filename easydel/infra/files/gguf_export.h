// Writes a model of Hugging Face's files as a GGUF file, one tensor in memory at a time.
#pragma once

#include <filesystem>
#include <string>

#include "easydel/core/json/json.h"
#include "easydel/io/tensor_source.h"

namespace easydel {

// `config` is config.json's content, `tensors` the dense weights under the files' names, and `tokenizer` the directory
// of the tokenizer's files. Matrices get the type (F32, F16, BF16, Q8_0, Q4_0, Q4_K_M, Q6_K), or one with smaller
// blocks where theirs do not divide the columns; norms and biases stay float32. NotSupportedError for a family, a
// rotary embedding or a tokenizer that llama.cpp's metadata of these families has no words for.
void export_gguf(const Json& config, const TensorSource& tensors, const std::filesystem::path& tokenizer,
                 const std::string& type, const std::filesystem::path& path);

}  // namespace easydel

// Vectors of texts, of the states that a model gives for their tokens.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <string>
#include <vector>

#include "easydel/cli/options/model_options.h"

namespace easydel::cli {

// Whether the files are of a model that reads texts and nothing else, and is no encoder-decoder.
bool reads_text_alone(const ModelOptions& options);

struct TextPooling {
  std::string strategy;     // of pool_tokens: first, last, mean, weighted_mean, max
  bool normalizes = false;  // to length 1
};

// What modules.json of sentence-transformers says; without it the mean of all tokens. `given`, where it is not empty,
// is the strategy in place of the file's. FormatError on broken files, NotSupportedError on other modules.
TextPooling text_pooling(const std::filesystem::path& directory, const std::string& given);

// Each text by itself, so that no padding is needed: decoders may have no pad token. `command` is for errors: a text
// without tokens, or with more than the model has positions.
std::vector<ModelInputs> inputs_of_texts(const char* command, const ModelOptions& options, const BaseModule& module,
                                         const std::vector<std::string>& texts);

// [texts, D].
at::Tensor text_vectors(const ModelOptions& options, const BaseModule& module, const std::vector<std::string>& texts,
                        const TextPooling& pooling);

}  // namespace easydel::cli

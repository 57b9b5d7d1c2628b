// Text in and out of a model, for commands that take a prompt.
#pragma once

#include <memory>
#include <string>

#include "easydel/cli/model_options.h"
#include "easydel/tokenizers/tokenizer.h"

namespace easydel::cli {

// The model's own tokenizer; null when it has none that this build reads.
std::shared_ptr<const Tokenizer> load_tokenizer(const ModelOptions& options);

}  // namespace easydel::cli

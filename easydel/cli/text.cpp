#include "easydel/cli/text.h"

namespace easydel::cli {

std::shared_ptr<const Tokenizer> load_tokenizer(const ModelOptions&) { return nullptr; }

}  // namespace easydel::cli

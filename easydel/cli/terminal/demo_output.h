// The directory that easydel demo writes into.
#pragma once

#include <filesystem>
#include <memory>

#include "easydel/core/json/json.h"
#include "easydel/trainers/run/run_lock.h"

namespace easydel::cli {

// Removes the output of an earlier demo, and marks it as a demo's. UsageError if it is a file, or is not empty
// and not marked. The lock is for the trainer.
std::shared_ptr<RunLock> prepare_demo_output(const std::filesystem::path& directory);
// Writes tokenizer.json and tokenizer_config.json. Texts end with <|end|>.
void write_demo_tokenizer(const std::filesystem::path& directory, const Json& tokenizer);

}  // namespace easydel::cli

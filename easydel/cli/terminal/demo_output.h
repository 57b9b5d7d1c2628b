// The directory that easydel demo writes into.
#pragma once

#include <filesystem>
#include <memory>

#include "easydel/trainers/run/run_lock.h"

namespace easydel::cli {

// Removes what an earlier demo left in it, and marks it as a demo's. UsageError when it is a file, or has something in
// it and is not marked. The lock is for the trainer.
std::shared_ptr<RunLock> prepare_demo_output(const std::filesystem::path& directory);

}  // namespace easydel::cli

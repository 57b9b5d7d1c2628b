// Runs Python code that a model wrote. It can do what the user can: this is no sandbox.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace easydel {

// The python3 of PATH.
std::optional<std::filesystem::path> find_python();

// Whether each program ends in time without an exception. Each runs in an empty directory of its own and a new session,
// with no environment but PATH, limits on its memory, processor time and files, and no input or output; a few at a
// time.
std::vector<bool> run_programs(const std::filesystem::path& python, const std::vector<std::string>& programs,
                               std::chrono::milliseconds timeout);

// An estimate of how likely one of k answers passes, from `passed` of `count` that did.
double pass_at_k(int64_t count, int64_t passed, int64_t k);

}  // namespace easydel

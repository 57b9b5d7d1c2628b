// Atomically replaces a directory with a new one.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

namespace easydel {

// Runs `write` on a new directory next to `target`, syncs what it wrote, then makes it `target` with one rename: a
// process killed at any moment leaves either the complete old directory or the complete new one. Entries of the old
// one that `write` did not create and that `is_ours` does not claim are moved over; the rest is removed. Leftovers of
// a killed call are removed by the next. IoError names the path.
void replace_directory(const std::filesystem::path& target,
                       const std::function<void(const std::filesystem::path& fresh)>& write,
                       const std::function<bool(const std::string& name)>& is_ours);

// The name of the directory in which `target` is being written.
std::filesystem::path unfinished_name(const std::filesystem::path& target);

}  // namespace easydel

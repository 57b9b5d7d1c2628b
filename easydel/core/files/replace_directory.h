// Puts a finished directory in the place of another, at once.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

namespace easydel {

// Runs `write` on a fresh directory beside `target`, syncs what it wrote, then makes it `target` with one rename: a
// process that is killed at any moment leaves the old directory whole or the new one. Entries of the old one that
// `write` did not make and that `is_ours` does not claim move over; the rest of it is removed. What a killed call left
// behind goes with the next. IoError names the path.
void replace_directory(const std::filesystem::path& target,
                       const std::function<void(const std::filesystem::path& fresh)>& write,
                       const std::function<bool(const std::string& name)>& is_ours);

// The name of the directory in which `target` is being written.
std::filesystem::path unfinished_name(const std::filesystem::path& target);

}  // namespace easydel

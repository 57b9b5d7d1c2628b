// Compares a tokenizer with what the tokenizers package made of the same texts; see reference/tokenizers_peer.py.
#pragma once

#include <filesystem>
#include <string>

namespace easydel {

// Reads NAME.json and NAME.jsonl; a failure prints the first texts that differ. Returns how many texts there were.
std::size_t expect_same_as_the_package(const std::filesystem::path& directory, const std::string& name);

}  // namespace easydel

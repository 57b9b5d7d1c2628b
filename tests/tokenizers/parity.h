// Compares a tokenizer with the tokenizers package on the same texts; see reference/tokenizers_peer.py.
#pragma once

#include <filesystem>
#include <string>

namespace easydel {

// Reads NAME.json and NAME.jsonl; a failure prints the first texts that differ. Returns the number of texts. With
// `whole_stream` the steps of a stream must add up to the full text, which they do not for every decoder.
std::size_t expect_same_as_the_package(const std::filesystem::path& directory, const std::string& name,
                                       bool whole_stream);

}  // namespace easydel

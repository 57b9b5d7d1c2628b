// The split of a text into words that a byte-level BPE is trained on.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace easydel {

// Appends the words of the text, in order and without gaps: the matches of a pattern and the text between them.
using SplitText = std::function<void(std::string_view text, std::vector<std::string_view>& words)>;

// "gpt2", "llama3" and "qwen2" are the patterns of these models; anything else is a regular expression itself.
std::string bpe_pattern(const std::string& name_or_pattern);

// For use by one thread at a time; texts must be valid UTF-8. ConfigError for a pattern that is not a valid regular
// expression, and from the split when a pattern takes too long. NotSupportedError in a build without PCRE2.
SplitText make_splitter(const std::string& pattern);

}  // namespace easydel

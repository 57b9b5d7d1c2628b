// Regular expressions in the dialect of tokenizer.json (Oniguruma's), matched by PCRE2. Oniguruma itself would need no
// translation, but has no JIT: over 3 MB of text libonig 6.9.8 finds the same matches as PCRE2 10.42 and takes 1.8 to
// 3.6 times as long with the patterns of GPT-2, Llama 3, o200k and DeepSeek, and up to 5.5 times with \p{N} alone.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "easydel/text/offset.h"

namespace easydel {

class Regex {
 public:
  // FormatError that starts with `where` when the pattern does not compile, NotSupportedError when it uses a feature
  // that PCRE2 lacks or when this build has no PCRE2.
  Regex(std::string_view pattern, const std::string& where);
  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;

  // Appends every match in order. `text` must be UTF-8. FormatError when matching takes too many steps.
  void find_all(std::string_view text, std::vector<Offset>& matches) const;

 private:
  struct Code;
  std::unique_ptr<Code> code_;
};

bool is_pcre2_pattern(std::string_view pattern);  // whether PCRE2 compiles it
// The same pattern in the dialect of PCRE2.
std::string translate_regex(std::string_view pattern, const std::string& where);

}  // namespace easydel

#include "easydel/tokenizers/bpe_split.h"

#include <memory>

#include "easydel/core/build_info.h"
#include "easydel/core/error.h"

#if EASYDEL_HAS_PCRE2
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#endif

namespace easydel {

std::string bpe_pattern(const std::string& name_or_pattern) {
  const std::string rest = R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  const std::string words = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|)";
  if (name_or_pattern == "gpt2") {
    return R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
  }
  if (name_or_pattern == "llama3") return words + R"(\p{N}{1,3}|)" + rest;
  if (name_or_pattern == "qwen2") return words + R"(\p{N}|)" + rest;
  return name_or_pattern;
}

#if EASYDEL_HAS_PCRE2
namespace {

// PCRE2's \s takes U+180E for white space, which Unicode and the `tokenizers` package do not.
std::string with_unicode_spaces(const std::string& pattern) {
  const std::string spaces = R"(\t-\r \x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
  std::string out;
  bool in_class = false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      const char escaped = pattern[++i];
      if (escaped == 's') {
        out += in_class ? spaces : "[" + spaces + "]";
      } else if (escaped == 'S' && !in_class) {
        out += "[^" + spaces + "]";
      } else {
        (out += c) += escaped;
      }
      continue;
    }
    if (c == '[') in_class = true;
    if (c == ']') in_class = false;
    out += c;
  }
  return out;
}

std::string message_of(int code) {
  PCRE2_UCHAR text[256] = {};
  pcre2_get_error_message(code, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

class Splitter {
 public:
  explicit Splitter(const std::string& pattern) : pattern_(pattern) {
    const std::string full = with_unicode_spaces(pattern);
    int code = 0;
    PCRE2_SIZE at = 0;
    code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(full.data()), full.size(),
                              PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &code, &at, nullptr));
    require<ConfigError>(code_ != nullptr,
                         "[train_byte_level_bpe] the pattern is no regular expression: ", code_ ? "" : message_of(code),
                         "; got \"", pattern, "\".");
    has_jit_ = pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE) == 0;
    data_.reset(pcre2_match_data_create(1, nullptr));
    context_.reset(pcre2_match_context_create(nullptr));
    require<Error>(data_ && context_, "[train_byte_level_bpe] out of memory for a regular expression.");
    stack_.reset(pcre2_jit_stack_create(32 << 10, 8 << 20, nullptr));
    if (stack_) pcre2_jit_stack_assign(context_.get(), nullptr, stack_.get());
  }

  void operator()(std::string_view text, std::vector<std::string_view>& words) {
    const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    const auto add = [&](std::size_t begin, std::size_t end) {
      if (end > begin) words.push_back(text.substr(begin, end - begin));
    };
    std::size_t done = 0;
    for (std::size_t at = 0; at < text.size();) {
      const int found =
          has_jit_
              ? pcre2_jit_match(code_.get(), subject, text.size(), at, PCRE2_NO_UTF_CHECK, data_.get(), context_.get())
              : pcre2_match(code_.get(), subject, text.size(), at, PCRE2_NO_UTF_CHECK, data_.get(), context_.get());
      if (found == PCRE2_ERROR_NOMATCH) break;
      require<ConfigError>(found >= 0, "[train_byte_level_bpe] the pattern \"", pattern_,
                           "\" is too hard for a text of ", text.size(), " bytes: ", found < 0 ? message_of(found) : "",
                           ".");
      const PCRE2_SIZE* range = pcre2_get_ovector_pointer(data_.get());
      const std::size_t begin = std::max(range[0], done), end = std::max(range[1], begin);  // \K could move it back
      add(done, begin);
      add(begin, end);
      done = end;
      at = end;
      if (begin == end) {  // the text is cut there, and the search goes on behind the next character
        do ++at;
        while (at < text.size() && (text[at] & 0xC0) == 0x80);
      }
    }
    add(done, text.size());
  }

 private:
  template <auto free>
  struct Free {
    template <class T>
    void operator()(T* object) const {
      free(object);
    }
  };
  std::string pattern_;
  std::unique_ptr<pcre2_code, Free<pcre2_code_free>> code_;
  std::unique_ptr<pcre2_match_data, Free<pcre2_match_data_free>> data_;
  std::unique_ptr<pcre2_match_context, Free<pcre2_match_context_free>> context_;
  std::unique_ptr<pcre2_jit_stack, Free<pcre2_jit_stack_free>> stack_;
  bool has_jit_ = false;
};

}  // namespace

SplitText make_splitter(const std::string& pattern) {
  const auto splitter = std::make_shared<Splitter>(pattern);
  return [splitter](std::string_view text, std::vector<std::string_view>& words) { (*splitter)(text, words); };
}
#else
SplitText make_splitter(const std::string&) {
  fail<NotSupportedError>("[train_byte_level_bpe] the split into words needs PCRE2, which this build is without. ",
                          "Debian and Ubuntu have it as libpcre2-dev.");
}
#endif

}  // namespace easydel

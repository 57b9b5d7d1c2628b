#include "easydel/tokenizers/bpe/bpe_split.h"

#include <algorithm>
#include <iterator>
#include <memory>

#include "easydel/core/build_info.h"
#include "easydel/core/error.h"
#include "easydel/core/text/utf8.h"

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

// PCRE2's \s matches U+180E, which Unicode and the `tokenizers` package do not count as white space. Its tables of
// letters and numbers may be those of Unicode 14 (PCRE2 10.42); these are from Unicode 15 to 16, which the package has.
constexpr const char* kSpaces =
    R"(\t-\r \x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
constexpr const char* kLetters =
    R"(\p{L})"
    R"(\x{1c89}-\x{1c8a}\x{a7cb}-\x{a7cd}\x{a7da}-\x{a7dc}\x{105c0}-\x{105f3}\x{10d4a}-\x{10d65})"
    R"(\x{10d6f}-\x{10d85}\x{10ec2}-\x{10ec4}\x{1123f}-\x{11240}\x{11380}-\x{11389}\x{1138b}\x{1138e})"
    R"(\x{11390}-\x{113b5}\x{113b7}\x{113d1}\x{113d3}\x{11bc0}-\x{11be0}\x{11f02}\x{11f04}-\x{11f10})"
    R"(\x{11f12}-\x{11f33}\x{1342f}\x{13441}-\x{13446}\x{13460}-\x{143fa}\x{16100}-\x{1611d})"
    R"(\x{16d40}-\x{16d6c}\x{18cff}\x{1b132}\x{1b155}\x{1df25}-\x{1df2a}\x{1e030}-\x{1e06d})"
    R"(\x{1e4d0}-\x{1e4eb}\x{1e5d0}-\x{1e5ed}\x{1e5f0}\x{2b739}\x{2ebf0}-\x{2ee5d}\x{31350}-\x{323af})";
constexpr const char* kNumbers =
    R"(\p{N})"
    R"(\x{10d40}-\x{10d49}\x{116d0}-\x{116e3}\x{11bf0}-\x{11bf9}\x{11f50}-\x{11f59}\x{16130}-\x{16139})"
    R"(\x{16d70}-\x{16d79}\x{1ccf0}-\x{1ccf9}\x{1d2c0}-\x{1d2d3}\x{1e4f0}-\x{1e4f9}\x{1e5f1}-\x{1e5fa})";

std::string with_own_classes(std::string_view pattern) {
  struct Class {
    std::string_view name;
    const char* members;
    bool negated;
  };
  static constexpr Class classes[] = {
      {"\\s", kSpaces, false},    {"\\S", kSpaces, true},      {"\\p{L}", kLetters, false},
      {"\\P{L}", kLetters, true}, {"\\p{N}", kNumbers, false}, {"\\P{N}", kNumbers, true},
  };
  std::string out;
  bool in_class = false;
  while (!pattern.empty()) {
    std::size_t taken = pattern[0] == '\\' ? std::min<std::size_t>(2, pattern.size()) : 1;
    if (pattern[0] == '[') in_class = true;
    if (pattern[0] == ']') in_class = false;
    const auto* own = std::find_if(std::begin(classes), std::end(classes),
                                   [&](const Class& known) { return pattern.starts_with(known.name); });
    if (own == std::end(classes) || (in_class && own->negated)) {
      out += pattern.substr(0, taken);
    } else {
      taken = own->name.size();
      out += in_class ? own->members : concat(own->negated ? "[^" : "[", own->members, "]");
    }
    pattern.remove_prefix(taken);
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
    const std::string full = with_own_classes(pattern);
    int code = 0;
    PCRE2_SIZE at = 0;
    code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(full.data()), full.size(),
                              PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &code, &at, nullptr));
    require<ConfigError>(code_ != nullptr, "[train_byte_level_bpe] the pattern is not a valid regular expression: ",
                         code_ ? "" : message_of(code), "; got \"", pattern, "\".");
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
                           "\" exceeds its limits on a text of ", text.size(),
                           " bytes: ", found < 0 ? message_of(found) : "", ".");
      const PCRE2_SIZE* range = pcre2_get_ovector_pointer(data_.get());
      const std::size_t begin = std::max(range[0], done), end = std::max(range[1], begin);  // \K can move it back
      add(done, begin);
      add(begin, end);
      done = end;
      at = end;
      // At an empty match the text is cut, and the search goes on behind the next character.
      if (begin == end && at < text.size()) at += utf8::length_of_lead(text[at]);
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
  fail<NotSupportedError>("[train_byte_level_bpe] splitting into words needs PCRE2, which this build lacks. ",
                          "Install libpcre2-dev and build again.");
}
#endif

}  // namespace easydel

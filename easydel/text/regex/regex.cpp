#include "easydel/text/regex/regex.h"

#include "easydel/core/build_info.h"
#include "easydel/core/error.h"
#include "easydel/core/text/quoted.h"
#include "easydel/core/text/utf8.h"

#if EASYDEL_HAS_PCRE2
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#endif

namespace easydel {

#if EASYDEL_HAS_PCRE2
namespace {

constexpr std::size_t kMaxPatternBytes = 1 << 16;

std::string message_of(int code) {
  PCRE2_UCHAR buffer[256];
  pcre2_get_error_message(code, buffer, sizeof buffer);
  return reinterpret_cast<const char*>(buffer);
}

// Per-thread match state, shared by all patterns.
struct Matcher {
  pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
  pcre2_match_context* context = pcre2_match_context_create(nullptr);
  pcre2_jit_stack* stack = pcre2_jit_stack_create(32 * 1024, 4 * 1024 * 1024, nullptr);

  Matcher() {
    pcre2_jit_stack_assign(context, nullptr, stack);
    pcre2_set_heap_limit(context, 64 * 1024);  // KiB
  }
  ~Matcher() {
    pcre2_jit_stack_free(stack);
    pcre2_match_context_free(context);
    pcre2_match_data_free(data);
  }
  Matcher(const Matcher&) = delete;
  Matcher& operator=(const Matcher&) = delete;
};

}  // namespace

struct Regex::Code {
  pcre2_code* code = nullptr;
  std::string pattern;
  ~Code() { pcre2_code_free(code); }
};

bool is_pcre2_pattern(std::string_view pattern) {
  int error = 0;
  PCRE2_SIZE at = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), PCRE2_UTF | PCRE2_UCP,
                                   &error, &at, nullptr);
  pcre2_code_free(code);
  return code != nullptr;
}

Regex::Regex(std::string_view pattern, const std::string& where) : code_(std::make_unique<Code>()) {
  require<FormatError>(pattern.size() <= kMaxPatternBytes, where, " is a pattern of ", pattern.size(),
                       " bytes; the limit is ", kMaxPatternBytes, ".");
  code_->pattern = pattern;
  const std::string translated = translate_regex(pattern, where);
  int error = 0;
  PCRE2_SIZE at = 0;
  code_->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                              PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error, &at, nullptr);
  require<FormatError>(code_->code != nullptr, where, " is not a valid regular expression: ", message_of(error), " at ",
                       at, " of \"", printable(translated, 200), "\".");
  pcre2_jit_compile(code_->code, PCRE2_JIT_COMPLETE);  // without it matching is only slower
}

void Regex::find_all(std::string_view text, std::vector<Offset>& matches) const {
  if (text.empty()) return;
  thread_local Matcher matcher;
  // The limit allows many steps per character, but not quadratic time.
  pcre2_set_match_limit(matcher.context,
                        static_cast<uint32_t>(std::min<std::size_t>(100'000 + 16 * text.size(), 1u << 30)));
  const auto subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  std::size_t at = 0;
  std::size_t last_end = std::string_view::npos;
  uint32_t options = PCRE2_NO_UTF_CHECK;
  while (at <= text.size()) {
    int found = pcre2_match(code_->code, subject, text.size(), at, options, matcher.data, matcher.context);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT) {
      options |= PCRE2_NO_JIT;
      continue;
    }
    if (found == PCRE2_ERROR_NOMATCH) return;
    require<FormatError>(found >= 0, "[Tokenizer] the pattern \"", printable(code_->pattern, 200),
                         "\" exceeds its limits at byte ", at, " of a text of ", text.size(),
                         " bytes: ", message_of(found), ".");
    const PCRE2_SIZE* range = pcre2_get_ovector_pointer(matcher.data);
    const std::size_t begin = range[0];
    const std::size_t end = range[1];
    if (begin >= end &&
        (begin > end || end == last_end)) {  // an empty match right after the last one; \K can reverse them
      at += at < text.size() ? utf8::length_of_lead(text[at]) : 1;
      continue;
    }
    matches.push_back({static_cast<uint32_t>(begin), static_cast<uint32_t>(end)});
    last_end = at = end;
  }
}

#else

bool is_pcre2_pattern(std::string_view) { return false; }

struct Regex::Code {};

Regex::Regex(std::string_view, const std::string& where) {
  fail<NotSupportedError>(where, " needs regular expressions, which this build lacks. Install ",
                          "libpcre2-dev and build again.");
}

void Regex::find_all(std::string_view, std::vector<Offset>&) const {}

#endif

Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;

}  // namespace easydel

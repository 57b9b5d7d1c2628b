#include "easydel/text/regex/python_regex.h"

#include "easydel/core/build_info.h"
#include "easydel/core/error.h"
#include "easydel/core/text/quoted.h"

#if EASYDEL_HAS_PCRE2
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#endif

namespace easydel {

#if EASYDEL_HAS_PCRE2
namespace {

bool are_hex_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789abcdefABCDEF") == std::string_view::npos;
}

// What PCRE2 spells differently: \Z is the very end, \u and \U are characters by number, {,3} begins at 0.
std::string translate_python_regex(std::string_view pattern) {
  std::string out;
  bool is_in_class = false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      const char next = pattern[i + 1];
      const std::size_t digits = next == 'u' ? 4 : next == 'U' ? 8 : 0;
      if (digits > 0 && i + 2 + digits <= pattern.size() && are_hex_digits(pattern.substr(i + 2, digits))) {
        out += concat("\\x{", pattern.substr(i + 2, digits), "}");
        i += 1 + digits;
        continue;
      }
      out += c;
      out += next == 'Z' && !is_in_class ? 'z' : next;
      ++i;
      continue;
    }
    if (is_in_class) {
      if (c == '[') out += '\\';  // PCRE2 would look for a class such as [:alpha:]
      if (c == ']') is_in_class = false;
    } else if (c == '[') {
      is_in_class = true;
      out += c;
      if (i + 1 < pattern.size() && pattern[i + 1] == '^') out += pattern[++i];
      if (i + 1 < pattern.size() && pattern[i + 1] == ']') out += pattern[++i];  // a first ] is itself
      continue;
    } else if (c == '{' && i + 1 < pattern.size() && pattern[i + 1] == ',') {
      out += "{0";
      continue;
    }
    out += c;
  }
  return out;
}

std::string python_regex_message(int code) {
  PCRE2_UCHAR buffer[256];
  pcre2_get_error_message(code, buffer, sizeof buffer);
  return reinterpret_cast<const char*>(buffer);
}

}  // namespace

struct PythonRegex::Code {
  pcre2_code* code = nullptr;
  uint32_t groups = 0;
  std::string pattern, where;
  ~Code() { pcre2_code_free(code); }
};

PythonRegex::PythonRegex(std::string_view pattern, const std::string& where, Flags flags)
    : code_(std::make_unique<Code>()) {
  code_->pattern = pattern;
  code_->where = where;
  const std::string translated = translate_python_regex(pattern);
  uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C;
  if (flags.ignore_case) options |= PCRE2_CASELESS;
  if (flags.multiline) options |= PCRE2_MULTILINE;
  const std::unique_ptr<pcre2_compile_context, decltype(&pcre2_compile_context_free)> context(
      pcre2_compile_context_create(nullptr), pcre2_compile_context_free);
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int error = 0;
  PCRE2_SIZE at = 0;
  code_->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(), options, &error, &at,
                              context.get());
  require<FormatError>(code_->code != nullptr, where,
                       " is not a valid regular expression: ", python_regex_message(error), " at ", at, " of \"",
                       printable(translated, 200), "\".");
  pcre2_pattern_info(code_->code, PCRE2_INFO_CAPTURECOUNT, &code_->groups);
}

std::vector<PythonRegex::Match> PythonRegex::find_all(std::string_view text) const {
  std::vector<Match> matches;
  const std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> data(
      pcre2_match_data_create_from_pattern(code_->code, nullptr), pcre2_match_data_free);
  std::size_t at = 0;
  uint32_t options = 0;
  while (at <= text.size()) {
    const int found = pcre2_match(code_->code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at, options,
                                  data.get(), nullptr);
    if (found == PCRE2_ERROR_NOMATCH) break;
    require<FormatError>(found >= 0, code_->where, ": the pattern \"", printable(code_->pattern, 200),
                         "\" fails on a text of ", text.size(), " bytes: ", python_regex_message(found), ".");
    const PCRE2_SIZE* range = pcre2_get_ovector_pointer(data.get());
    Match match{.begin = range[0], .end = range[1], .groups = {}};
    if (match.begin > match.end) break;  // \K, which Python lacks
    for (uint32_t i = 1; i <= code_->groups; ++i) {
      const bool took_part = static_cast<int>(i) < found && range[2 * i] != PCRE2_UNSET;
      match.groups.push_back(took_part ? text.substr(range[2 * i], range[2 * i + 1] - range[2 * i])
                                       : std::string_view());
    }
    at = match.end;
    options = PCRE2_NO_UTF_CHECK | (match.begin == match.end ? PCRE2_NOTEMPTY_ATSTART : 0);
    matches.push_back(std::move(match));
  }
  return matches;
}

#else

struct PythonRegex::Code {};

PythonRegex::PythonRegex(std::string_view, const std::string& where, Flags) {
  fail<NotSupportedError>(where, " needs regular expressions, which this build lacks. Install ",
                          "libpcre2-dev and build again.");
}

std::vector<PythonRegex::Match> PythonRegex::find_all(std::string_view) const { return {}; }

#endif

std::string PythonRegex::removed_from(std::string_view text) const {
  std::string out;
  for (const std::string_view part : split(text)) out += part;
  return out;
}

std::vector<std::string_view> PythonRegex::split(std::string_view text) const {
  std::vector<std::string_view> parts;
  std::size_t at = 0;
  for (const Match& match : find_all(text)) {
    parts.push_back(text.substr(at, match.begin - at));
    at = match.end;
  }
  parts.push_back(text.substr(at));
  return parts;
}

PythonRegex::~PythonRegex() = default;
PythonRegex::PythonRegex(PythonRegex&&) noexcept = default;
PythonRegex& PythonRegex::operator=(PythonRegex&&) noexcept = default;

}  // namespace easydel

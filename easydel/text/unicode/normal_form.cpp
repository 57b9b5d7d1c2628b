// The four normal forms, with the origin of every character of the result.
#include <algorithm>
#include <array>
#include <atomic>
#include <utility>

#include "easydel/core/build_info.h"
#include "easydel/core/error.h"
#include "easydel/core/text/utf8.h"
#include "easydel/text/unicode/unicode.h"

#if EASYDEL_HAS_UTF8PROC
#include <utf8proc.h>
#endif

namespace easydel::unicode {

#if EASYDEL_HAS_UTF8PROC
namespace {

bool is_compatibility(Form form) { return form == Form::kNFKC || form == Form::kNFKD; }
bool is_composed(Form form) { return form == Form::kNFC || form == Form::kNFKC; }

int combining_class(char32_t code) {
  return code < 0x300 ? 0 : utf8proc_get_property(static_cast<utf8proc_int32_t>(code))->combining_class;
}

struct Decomposition {
  std::array<utf8proc_int32_t, 32> codes;
  std::size_t size;
};

// Characters with a decomposition that are newer than the tables of the tokenizers package, which leaves them alone.
bool is_too_young(char32_t code) {
  static constexpr std::array<std::pair<char32_t, char32_t>, 17> kRanges{{{0x32FF, 0x32FF},
                                                                          {0xA7F1, 0xA7F4},
                                                                          {0xAB69, 0xAB69},
                                                                          {0x105C9, 0x105C9},
                                                                          {0x105E4, 0x105E4},
                                                                          {0x10781, 0x10785},
                                                                          {0x10787, 0x107B0},
                                                                          {0x107B2, 0x107BA},
                                                                          {0x11383, 0x11391},
                                                                          {0x113C5, 0x113C8},
                                                                          {0x11938, 0x11938},
                                                                          {0x16121, 0x16128},
                                                                          {0x16D68, 0x16D6A},
                                                                          {0x1CCD6, 0x1CCF9},
                                                                          {0x1E030, 0x1E06D},
                                                                          {0x1F16C, 0x1F16C},
                                                                          {0x1FBF0, 0x1FBF9}}};
  if (code < kRanges.front().first) return false;
  return std::any_of(kRanges.begin(), kRanges.end(),
                     [code](const auto& range) { return code >= range.first && code <= range.second; });
}

Decomposition decompose(char32_t code, bool compatibility) {
  Decomposition out{};
  if (is_too_young(code)) {
    out.codes[0] = static_cast<utf8proc_int32_t>(code);
    out.size = 1;
    return out;
  }
  int last = 0;
  const auto options =
      static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | (compatibility ? UTF8PROC_COMPAT : 0));
  const auto size = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(code), out.codes.data(),
                                            static_cast<utf8proc_ssize_t>(out.codes.size()), options, &last);
  if (size < 1 || size > static_cast<utf8proc_ssize_t>(out.codes.size())) {
    out.codes[0] = static_cast<utf8proc_int32_t>(code);
    out.size = 1;
  } else {
    out.size = static_cast<std::size_t>(size);
  }
  return out;
}

// The composition of two characters, or 0.
char32_t compose(char32_t first, char32_t second) {
  std::array<utf8proc_int32_t, 3> pair{static_cast<utf8proc_int32_t>(first), static_cast<utf8proc_int32_t>(second), 0};
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
  const bool one = utf8proc_normalize_utf32(pair.data(), 2, options) == 1;
  return one && !is_too_young(static_cast<char32_t>(pair[0])) ? static_cast<char32_t>(pair[0]) : 0;
}

std::vector<Change> decomposed(std::string_view text, bool compatibility) {
  std::vector<Change> out;
  out.reserve(text.size());
  std::size_t pending = 0;  // from here on all are marks, to be sorted
  struct Mark {
    int mark_class;
    std::size_t place;
    Change change;
  };
  std::vector<Mark> marks;
  const auto sort_pending = [&] {
    if (out.size() - pending < 2) return;
    marks.clear();
    for (std::size_t i = pending; i < out.size(); ++i) marks.push_back({combining_class(out[i].first), i, out[i]});
    std::sort(marks.begin(), marks.end(), [](const Mark& a, const Mark& b) {
      return a.mark_class != b.mark_class ? a.mark_class < b.mark_class : a.place < b.place;
    });
    for (std::size_t i = 0; i < marks.size(); ++i) out[pending + i] = marks[i].change;
  };
  const auto add = [&](char32_t code, int32_t change) {
    if (combining_class(code) == 0) {
      sort_pending();
      out.emplace_back(code, change);
      pending = out.size();
    } else {
      out.emplace_back(code, change);
    }
  };
  for (std::size_t at = 0; at < text.size();) {
    const char32_t code = utf8::next(text, at);
    if (code < 0xA0) {
      add(code, 0);
      continue;
    }
    const Decomposition parts = decompose(code, compatibility);
    for (std::size_t i = 0; i < parts.size; ++i) add(static_cast<char32_t>(parts.codes[i]), i == 0 ? 0 : 1);
  }
  sort_pending();
  return out;
}

std::vector<Change> composed(const std::vector<Change>& parts) {
  std::vector<Change> out;
  out.reserve(parts.size());
  bool has_starter = false;
  std::size_t starter = 0;
  int last_class = -1;  // of the uncomposed marks after the starter; -1: none
  for (const Change& part : parts) {
    const int mark = combining_class(part.first);
    if (!has_starter) {
      out.push_back(part);
      if (mark == 0) {
        has_starter = true;
        starter = out.size() - 1;
      }
      continue;
    }
    const bool blocked = last_class >= mark;
    const char32_t both =
        blocked || (part.first < 0x300 && out[starter].first < 0x80) ? 0 : compose(out[starter].first, part.first);
    if (both) {
      out[starter] = {both, out[starter].second + part.second - 1};
      continue;
    }
    out.push_back(part);
    if (mark == 0) {
      starter = out.size() - 1;
      last_class = -1;
    } else {
      last_class = mark;
    }
  }
  return out;
}

// Whether a character is its own normal form and neither reorders nor composes. Cached for the first 65536; concurrent
// threads write the same result.
bool is_inert(char32_t code, Form form) {
  if (code < 0xA0) return true;
  static std::array<std::array<std::atomic<uint8_t>, 0x10000>, 4> known{};
  std::atomic<uint8_t>* memory = code < 0x10000 ? &known[static_cast<std::size_t>(form)][code] : nullptr;
  if (memory) {
    if (const uint8_t answer = memory->load(std::memory_order_relaxed)) return answer == 1;
  }
  bool inert = combining_class(code) == 0 && !(code >= 0x1100 && code <= 0x11FF);
  if (inert) {
    const auto* property = utf8proc_get_property(static_cast<utf8proc_int32_t>(code));
    std::vector<Change> own = decomposed(utf8::encode(code), is_compatibility(form));
    if (is_composed(form)) {
      own = composed(own);
      // 0x8000 marks characters that can be second in a pair.
      inert = property->comb_index == UINT16_MAX || property->comb_index < 0x8000;
      if (code >= 0xAC00 && code <= 0xD7A3) inert = true;
    }
    inert = inert && own.size() == 1 && own[0].first == code;
  }
  if (memory) memory->store(inert ? 1 : 2, std::memory_order_relaxed);
  return inert;
}

}  // namespace

bool is_normal(std::string_view text, Form form) {
  for (std::size_t at = 0; at < text.size();) {
    if (static_cast<unsigned char>(text[at]) < 0x80) {
      ++at;
    } else if (!is_inert(utf8::next(text, at), form)) {
      return false;
    }
  }
  return true;
}

std::vector<Change> normalize(std::string_view text, Form form) {
  std::vector<Change> parts = decomposed(text, is_compatibility(form));
  return is_composed(form) ? composed(parts) : parts;
}

#else

bool is_normal(std::string_view, Form) { return false; }
std::vector<Change> normalize(std::string_view, Form) {
  require_tables("normalize");
  return {};
}

#endif

}  // namespace easydel::unicode

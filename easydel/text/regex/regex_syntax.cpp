// Translates Oniguruma's dialect (Ruby's) to PCRE2's: syntax that both share is copied.
#include <algorithm>
#include <array>
#include <cctype>

#include "easydel/core/error.h"
#include "easydel/core/text/quoted.h"
#include "easydel/text/regex/regex.h"

namespace easydel {
namespace {

// The equivalent of a class inside brackets.
constexpr std::string_view kSpace = "\\p{White_Space}";
constexpr std::string_view kWord = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\xb2\\xb3\\xb9\\xbc\\xbd\\xbe";

struct Name {
  std::string_view name, meaning;
};

constexpr std::array kPosix{Name{"alnum", "\\p{Alphabetic}\\p{Nd}"},
                            Name{"alpha", "\\p{Alphabetic}"},
                            Name{"blank", "\\p{Zs}\\t"},
                            Name{"cntrl", "\\p{Cc}"},
                            Name{"digit", "\\p{Nd}"},
                            Name{"lower", "\\p{Lowercase}"},
                            Name{"punct", "\\p{P}\\p{S}"},
                            Name{"space", kSpace},
                            Name{"upper", "\\p{Uppercase}"},
                            Name{"xdigit", "0-9a-fA-F"},
                            Name{"word", "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}"}};

// Long names of general categories, and names that mean something else to PCRE2; as Oniguruma compares them.
constexpr std::array kProperties{Name{"letter", "L"},
                                 Name{"uppercaseletter", "Lu"},
                                 Name{"lowercaseletter", "Ll"},
                                 Name{"titlecaseletter", "Lt"},
                                 Name{"casedletter", "L&"},
                                 Name{"lc", "L&"},
                                 Name{"modifierletter", "Lm"},
                                 Name{"otherletter", "Lo"},
                                 Name{"mark", "M"},
                                 Name{"combiningmark", "M"},
                                 Name{"nonspacingmark", "Mn"},
                                 Name{"spacingmark", "Mc"},
                                 Name{"enclosingmark", "Me"},
                                 Name{"number", "N"},
                                 Name{"decimalnumber", "Nd"},
                                 Name{"digit", "Nd"},
                                 Name{"letternumber", "Nl"},
                                 Name{"othernumber", "No"},
                                 Name{"punctuation", "P"},
                                 Name{"punct", "P"},
                                 Name{"connectorpunctuation", "Pc"},
                                 Name{"dashpunctuation", "Pd"},
                                 Name{"openpunctuation", "Ps"},
                                 Name{"closepunctuation", "Pe"},
                                 Name{"initialpunctuation", "Pi"},
                                 Name{"finalpunctuation", "Pf"},
                                 Name{"otherpunctuation", "Po"},
                                 Name{"symbol", "S"},
                                 Name{"mathsymbol", "Sm"},
                                 Name{"currencysymbol", "Sc"},
                                 Name{"modifiersymbol", "Sk"},
                                 Name{"othersymbol", "So"},
                                 Name{"separator", "Z"},
                                 Name{"spaceseparator", "Zs"},
                                 Name{"lineseparator", "Zl"},
                                 Name{"paragraphseparator", "Zp"},
                                 Name{"other", "C"},
                                 Name{"control", "Cc"},
                                 Name{"cntrl", "Cc"},
                                 Name{"format", "Cf"},
                                 Name{"surrogate", "Cs"},
                                 Name{"privateuse", "Co"},
                                 Name{"unassigned", "Cn"},
                                 Name{"alpha", "Alphabetic"},
                                 Name{"lower", "Lowercase"},
                                 Name{"upper", "Uppercase"},
                                 Name{"space", "White_Space"}};

class Translator {
 public:
  Translator(std::string_view pattern, const std::string& where) : in_(pattern), where_(where) {}

  std::string run() {
    while (at_ < in_.size()) step();
    return std::move(out_);
  }

 private:
  [[noreturn]] void lacks(std::string_view what) const {
    fail<NotSupportedError>(where_, " uses ", what, " at ", at_, " of \"", printable(in_, 200),
                            "\", which PCRE2 does not have.");
  }
  bool sees(std::string_view text) const { return in_.substr(at_, text.size()) == text; }

  void copy(std::size_t count) {
    count = std::min(count, in_.size() - at_);
    out_.append(in_, at_, count);
    at_ += count;
  }

  void step() {
    const char c = in_[at_];
    if (c == '(') {
      open_.push_back(out_.size());
      open_group();
    } else if (c == ')') {
      if (!open_.empty()) {
        atom_ = open_.back();
        open_.pop_back();
      }
      copy(1);
    } else if (c == '[') {
      atom_ = out_.size();
      character_class();
    } else if (c == '{') {
      interval();
    } else {
      if (c != '*' && c != '+' && c != '?') atom_ = out_.size();
      if (c == '\\') {
        escape();
      } else {
        copy(1);
      }
    }
  }

  // (?m: is "the dot matches newlines" in Ruby, which is (?s: elsewhere.
  void open_group() {
    copy(1);
    if (!sees("?")) return;
    std::size_t end = at_ + 1;
    while (end < in_.size() && (std::isalpha(static_cast<unsigned char>(in_[end])) || in_[end] == '-')) ++end;
    if (end >= in_.size() || (in_[end] != ':' && in_[end] != ')') || end == at_ + 1) return;
    for (; at_ < end; ++at_) {
      if (in_[at_] == 's') fail<FormatError>(where_, " has the group option s, which Oniguruma does not support.");
      out_ += in_[at_] == 'm' ? 's' : in_[at_];
    }
  }

  // a{1,2}+ repeats a{1,2} in Ruby; elsewhere it is possessive.
  void interval() {
    std::size_t end = at_ + 1;
    while (end < in_.size() && (std::isdigit(static_cast<unsigned char>(in_[end])) || in_[end] == ',')) ++end;
    const bool counts = end < in_.size() && in_[end] == '}' && end > at_ + 1;
    if (!counts) {
      atom_ = out_.size();
      out_ += "\\{";
      ++at_;
      return;
    }
    if (in_[at_ + 1] == ',') {  // {,3}
      out_ += "{0";
      ++at_;
    }
    copy(end + 1 - at_);
    if (sees("+")) {
      out_.insert(atom_, "(?:");
      out_ += ")";
    }
  }

  void escape() {
    const char next = at_ + 1 < in_.size() ? in_[at_ + 1] : '\0';
    const auto put = [&](std::string_view text) {
      out_ += text;
      at_ += 2;
    };
    switch (next) {
      case 's': return put(kSpace);
      case 'S': return put("\\P{White_Space}");
      case 'w': return put(concat("[", kWord, "]"));
      case 'W': return put(concat("[^", kWord, "]"));
      case 'b': return put(concat("(?:(?<=[", kWord, "])(?![", kWord, "])|(?<![", kWord, "])(?=[", kWord, "]))"));
      case 'B': return put(concat("(?:(?<=[", kWord, "])(?=[", kWord, "])|(?<![", kWord, "])(?![", kWord, "]))"));
      case 'h': return put("[0-9a-fA-F]");
      case 'H': return put("[^0-9a-fA-F]");
      case 'O': return put("(?s:.)");
      default: shared_escape(next);
    }
  }

  // Inside and outside brackets.
  void shared_escape(char next) {
    if (next == 'v') {
      out_ += "\\x0B";
      at_ += 2;
    } else if (next == 'u') {
      out_ += concat("\\x{", in_.substr(at_ + 2, 4), "}");
      at_ = std::min(at_ + 6, in_.size());
    } else if ((next == 'x' || next == 'o') && at_ + 2 < in_.size() && in_[at_ + 2] == '{') {
      const std::size_t end = in_.find('}', at_);
      copy(end == std::string_view::npos ? in_.size() - at_ : end + 1 - at_);
    } else if ((next == 'p' || next == 'P') && at_ + 2 < in_.size() && in_[at_ + 2] == '{') {
      property();
    } else {
      copy(2);
    }
  }

  void property() {
    const std::size_t end = in_.find('}', at_);
    if (end == std::string_view::npos) return copy(in_.size() - at_);
    std::string_view name = in_.substr(at_ + 3, end - at_ - 3);
    bool negated = in_[at_ + 1] == 'P';
    if (name.starts_with('^')) {
      negated = !negated;
      name.remove_prefix(1);
    }
    std::string plain;
    for (const char c : name) {
      if (c != ' ' && c != '_' && c != '-') plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
    std::string_view meaning = name;
    for (const Name& known : kProperties) {
      if (known.name == plain) meaning = known.meaning;
    }
    // By default PCRE2 matches a script name against Script_Extensions too.
    const bool is_script = meaning.size() > 2 && is_pcre2_pattern(concat("\\p{sc:", meaning, "}"));
    out_ += concat(negated ? "\\P{" : "\\p{", is_script ? "sc:" : "", meaning, "}");
    at_ = end + 1;
  }

  void character_class() {
    copy(1);
    if (sees("^")) copy(1);
    if (sees("]")) copy(1);  // a literal one, here
    class_items();
    copy(1);
  }

  // Up to the bracket that closes it.
  void class_items() {
    while (at_ < in_.size() && in_[at_] != ']') {
      if (sees("&&")) lacks("an intersection of classes");
      if (sees("[:") && posix()) continue;
      if (in_[at_] == '[') {
        nested();
      } else if (in_[at_] == '\\') {
        class_escape();
      } else {
        copy(1);
      }
    }
  }

  // [a[bc]] is [abc]; nested negations and intersections have no equivalent.
  void nested() {
    if (in_.substr(at_, 2) == "[^") lacks("a negated class inside a class");
    ++at_;
    if (++depth_ > 16) lacks("classes nested this deep");
    class_items();
    if (at_ < in_.size()) ++at_;
    --depth_;
  }

  bool posix() {
    const std::size_t end = in_.find(":]", at_ + 2);
    if (end == std::string_view::npos) return false;
    const std::string_view name = in_.substr(at_ + 2, end - at_ - 2);
    for (const Name& known : kPosix) {
      if (known.name == name) {
        out_ += known.meaning;
        at_ = end + 2;
        return true;
      }
    }
    copy(end + 2 - at_);  // the others mean the same to PCRE2
    return true;
  }

  void class_escape() {
    const char next = at_ + 1 < in_.size() ? in_[at_ + 1] : '\0';
    if (next == 's' || next == 'w' || next == 'h') {
      out_ += next == 's' ? kSpace : next == 'w' ? kWord : "0-9a-fA-F";
      at_ += 2;
    } else if (next == 'S') {
      out_ += "\\P{White_Space}";
      at_ += 2;
    } else if (next == 'W' || next == 'H') {
      lacks(next == 'W' ? "\\W inside a class" : "\\H inside a class");
    } else {
      shared_escape(next);
    }
  }

  std::string_view in_;
  const std::string& where_;
  std::string out_;
  std::size_t at_ = 0;
  std::size_t atom_ = 0;           // where the last repeatable item starts in out_
  std::vector<std::size_t> open_;  // where the enclosing groups start in out_
  int depth_ = 0;
};

}  // namespace

std::string translate_regex(std::string_view pattern, const std::string& where) {
  return Translator(pattern, where).run();
}

}  // namespace easydel

#include "easydel/elarge/eval/ifeval.h"

#include <algorithm>
#include <array>
#include <map>

#include "easydel/core/error.h"
#include "easydel/elarge/eval/python_text.h"
#include "easydel/text/jinja/builtins/unicode.h"
#include "easydel/text/regex/python_regex.h"

namespace easydel {
namespace {

using std::string_view;
using Flags = PythonRegex::Flags;

// One instruction of a row, with its arguments.
struct Instruction {
  const Json& kwargs;
  const data::Row& row;
  std::string place;  // for messages

  const Json& argument(const char* key) const {
    const Json* value = kwargs.find(key);
    require<FormatError>(value && !value->is_null(), place, " needs ", key, ".");
    return *value;
  }
  std::string text(const char* key) const {
    const Json& value = argument(key);
    require<FormatError>(value.is_string(), place, ": ", key, " must be a string; got ", value.dump(), ".");
    return value.as_string();
  }
  int64_t number(const char* key) const {
    const Json& value = argument(key);
    require<FormatError>(value.is_number(), place, ": ", key, " must be a number; got ", value.dump(), ".");
    return static_cast<int64_t>(value.as_double());
  }
  std::vector<std::string> texts(const char* key) const {
    const Json& value = argument(key);
    require<FormatError>(value.is_array() && value.size() > 0, place, ": ", key, " must be a list of strings; got ",
                         value.dump(), ".");
    std::vector<std::string> found;
    for (const Json& one : value.as_array()) {
      require<FormatError>(one.is_string(), place, ": ", key, " must be a list of strings; got ", value.dump(), ".");
      found.push_back(one.as_string());
    }
    return found;
  }
  bool compare(int64_t count, const char* relation, int64_t limit) const {
    const std::string given = text(relation);
    require<FormatError>(given == "less than" || given == "at least", place, ": ", relation,
                         " must be less than or at least; got \"", given, "\".");
    return given == "less than" ? count < limit : count >= limit;
  }
  std::size_t matches(const std::string& pattern, string_view answer, Flags flags = {}) const {
    return PythonRegex(pattern, place, flags).find_all(answer).size();
  }
};

bool is_blank(string_view text) { return python_strip_view(text).empty(); }

bool has_keywords(const Instruction& i, const std::string& answer) {
  const std::vector<std::string> words = i.texts("keywords");
  return std::all_of(words.begin(), words.end(),
                     [&](const std::string& word) { return i.matches(word, answer, {.ignore_case = true}) > 0; });
}

bool has_keyword_often(const Instruction& i, const std::string& answer) {
  const std::size_t count = i.matches(python_strip(i.text("keyword")), answer, {.ignore_case = true});
  return i.compare(static_cast<int64_t>(count), "relation", i.number("frequency"));
}

bool lacks_forbidden_words(const Instruction& i, const std::string& answer) {
  const std::vector<std::string> words = i.texts("forbidden_words");
  return std::none_of(words.begin(), words.end(), [&](const std::string& word) {
    return i.matches("\\b" + word + "\\b", answer, {.ignore_case = true}) > 0;
  });
}

bool has_letter_often(const Instruction& i, const std::string& answer) {
  const std::string letter = jinja::to_lower(python_strip(i.text("letter"))), lower = jinja::to_lower(answer);
  require<FormatError>(jinja::count_characters(letter) == 1, i.place, ": letter must be one character; got \"", letter,
                       "\".");
  const auto count = static_cast<int64_t>(python_split(lower, letter).size()) - 1;
  return i.compare(count, "let_relation", i.number("let_frequency"));
}

bool has_words(const Instruction& i, const std::string& answer) {
  return i.compare(static_cast<int64_t>(i.matches("\\w+", answer)), "relation", i.number("num_words"));
}

bool has_paragraphs(const Instruction& i, const std::string& answer) {
  const PythonRegex divider("\\s?\\*\\*\\*\\s?", i.place);
  const std::vector<string_view> parts = divider.split(answer);
  auto count = static_cast<int64_t>(parts.size());
  for (std::size_t k = 0; k < parts.size(); ++k) {
    if (!is_blank(parts[k])) continue;
    if (k != 0 && k + 1 != parts.size()) return false;
    --count;
  }
  return count == i.number("num_paragraphs");
}

bool begins_nth_paragraph(const Instruction& i, const std::string& answer) {
  const std::vector<string_view> parts = python_split(answer, "\n\n");
  const auto count =
      static_cast<int64_t>(std::count_if(parts.begin(), parts.end(), [](string_view part) { return !is_blank(part); }));
  const int64_t nth = i.number("nth_paragraph");
  if (nth < 1 || nth > count) return false;
  const string_view paragraph = python_strip_view(parts[static_cast<std::size_t>(nth - 1)]);
  if (paragraph.empty()) return false;
  std::size_t end = 0;
  while (end < paragraph.size()) {
    std::size_t next = end;
    if (jinja::is_space(jinja::next_character(paragraph, next))) break;
    end = next;
  }
  const string_view word = strip_left(strip_left(paragraph.substr(0, end), '\''), '"');
  const std::string first = jinja::to_lower(word.substr(0, word.find_first_of(".,?!'\"")));
  return count == i.number("num_paragraphs") && first == jinja::to_lower(i.text("first_word"));
}

bool has_placeholders(const Instruction& i, const std::string& answer) {
  return static_cast<int64_t>(i.matches("\\[.*?\\]", answer)) >= i.number("num_placeholders");
}

bool has_postscript(const Instruction& i, const std::string& answer) {
  const std::string marker = python_strip(i.text("postscript_marker"));
  const std::string pattern = marker == "P.P.S"  ? R"(\s*p\.\s?p\.\s?s.*$)"
                              : marker == "P.S." ? R"(\s*p\.\s?s\..*$)"
                                                 : "\\s*" + jinja::to_lower(marker) + ".*$";
  return i.matches(pattern, jinja::to_lower(answer), {.multiline = true}) > 0;
}

bool has_bullets(const Instruction& i, const std::string& answer) {
  const std::size_t count = i.matches(R"(^\s*\*[^\*].*$)", answer, {.multiline = true}) +
                            i.matches(R"(^\s*-.*$)", answer, {.multiline = true});
  return static_cast<int64_t>(count) == i.number("num_bullets");
}

bool is_constrained(const Instruction&, const std::string& answer) {
  static constexpr std::array<string_view, 3> kAnswers = {"My answer is yes.", "My answer is no.",
                                                          "My answer is maybe."};
  return std::any_of(kAnswers.begin(), kAnswers.end(),
                     [&](string_view one) { return answer.find(one) != std::string::npos; });
}

bool has_highlights(const Instruction& i, const std::string& answer) {
  int64_t count = 0;
  const auto add = [&](const char* pattern) {
    for (const PythonRegex::Match& match : PythonRegex(pattern, i.place).find_all(answer)) {
      const string_view found = string_view(answer).substr(match.begin, match.end - match.begin);
      count += !is_blank(strip_right(strip_left(found, '*'), '*'));
    }
  };
  add(R"(\*[^\n\*]*\*)");
  add(R"(\*\*[^\n\*]*\*\*)");
  return count >= i.number("num_highlights");
}

bool has_sections(const Instruction& i, const std::string& answer) {
  const std::string pattern = "\\s?" + python_strip(i.text("section_spliter")) + "\\s?\\d+\\s?";
  return static_cast<int64_t>(i.matches(pattern, answer)) >= i.number("num_sections");
}

bool is_json(const Instruction&, const std::string& answer) {
  string_view text = python_strip_view(answer);
  for (const string_view fence : {"```json", "```Json", "```JSON", "```"}) {
    if (text.starts_with(fence)) text.remove_prefix(fence.size());
  }
  if (text.ends_with("```")) text.remove_suffix(3);
  try {
    Json::parse(python_strip_view(text));
    return true;
  } catch (const FormatError&) {
    return false;
  }
}

bool has_title(const Instruction& i, const std::string& answer) {
  for (const PythonRegex::Match& match : PythonRegex("<<[^\\n]+>>", i.place).find_all(answer)) {
    const string_view title = string_view(answer).substr(match.begin, match.end - match.begin);
    if (!is_blank(strip_right(strip_left(title, '<'), '>'))) return true;
  }
  return false;
}

bool has_two_responses(const Instruction&, const std::string& answer) {
  const std::vector<string_view> parts = python_split(answer, "******");
  std::vector<string_view> responses;
  for (std::size_t k = 0; k < parts.size(); ++k) {
    if (!is_blank(parts[k])) {
      responses.push_back(python_strip_view(parts[k]));
    } else if (k != 0 && k + 1 != parts.size()) {
      return false;
    }
  }
  return responses.size() == 2 && responses[0] != responses[1];
}

bool repeats_prompt(const Instruction& i, const std::string& answer) {
  const std::string prompt = jinja::to_lower(python_strip(i.text("prompt_to_repeat")));
  return jinja::to_lower(python_strip(answer)).starts_with(prompt);
}

bool has_ending(const Instruction& i, const std::string& answer) {
  const string_view text = strip_right(strip_left(python_strip_view(answer), '"'), '"');
  return jinja::to_lower(text).ends_with(jinja::to_lower(python_strip(i.text("end_phrase"))));
}

bool lacks_commas(const Instruction&, const std::string& answer) { return answer.find(',') == std::string::npos; }

bool is_quoted(const Instruction&, const std::string& answer) {
  const string_view text = python_strip_view(answer);
  return text.size() > 1 && text.front() == '"' && text.back() == '"';
}

using Checker = bool (*)(const Instruction&, const std::string&);

const std::map<string_view, Checker>& checkers() {
  static const std::map<string_view, Checker> all = {
      {"keywords:existence", has_keywords},
      {"keywords:frequency", has_keyword_often},
      {"keywords:forbidden_words", lacks_forbidden_words},
      {"keywords:letter_frequency", has_letter_often},
      {"length_constraints:number_words", has_words},
      {"length_constraints:number_paragraphs", has_paragraphs},
      {"length_constraints:nth_paragraph_first_word", begins_nth_paragraph},
      {"detectable_content:number_placeholders", has_placeholders},
      {"detectable_content:postscript", has_postscript},
      {"detectable_format:number_bullet_lists", has_bullets},
      {"detectable_format:constrained_response", is_constrained},
      {"detectable_format:number_highlighted_sections", has_highlights},
      {"detectable_format:multiple_sections", has_sections},
      {"detectable_format:json_format", is_json},
      {"detectable_format:title", has_title},
      {"combination:two_responses", has_two_responses},
      {"combination:repeat_prompt", repeats_prompt},
      {"startend:end_checker", has_ending},
      {"startend:quotation", is_quoted},
      {"punctuation:no_comma", lacks_commas}};
  return all;
}

// The answer, and the same without asterisks, its first line, its last line, or both.
std::vector<std::string> loose_forms(const std::string& answer) {
  const std::size_t first = answer.find('\n'), last = answer.rfind('\n');
  const bool is_one_line = first == std::string::npos;
  const std::string without_first = is_one_line ? "" : python_strip(string_view(answer).substr(first + 1));
  const std::string without_last = is_one_line ? "" : python_strip(string_view(answer).substr(0, last));
  const std::string without_both =
      first == last ? "" : python_strip(string_view(answer).substr(first + 1, last - first - 1));
  std::vector<std::string> forms = {answer, without_first, without_last, without_both};
  for (std::size_t i = 0; i < 4; ++i) forms.push_back(python_replace(forms[i], "*", ""));
  return forms;
}

}  // namespace

FollowedInstructions follow_instructions(const data::Row& row, const std::string& answer) {
  const Json* ids = row.values.find("instruction_id_list");
  const Json* kwargs = row.values.find("kwargs");
  require<FormatError>(ids && ids->is_array() && kwargs && kwargs->is_array() && ids->size() == kwargs->size(),
                       "[eval] ", row.place(),
                       " must have instruction_id_list and kwargs, lists of the same length, as IFEval's rows have.");
  const std::vector<std::string> forms = loose_forms(answer);
  FollowedInstructions followed;
  for (std::size_t i = 0; i < ids->size(); ++i) {
    const std::string id = ids->at(i).as_string();
    const auto checker = checkers().find(id);
    require<NotSupportedError>(checker != checkers().end(), "[eval] ", row.place(), ": the instruction \"", id,
                               "\" is not supported. Leave out the rows that have it.");
    const Instruction instruction{kwargs->at(i), row, concat("[eval] ", row.place(), ": ", id)};
    const auto follows = [&](const std::string& text) { return !is_blank(text) && checker->second(instruction, text); };
    followed.strict.push_back(follows(answer));
    followed.loose.push_back(std::any_of(forms.begin(), forms.end(), follows));
  }
  return followed;
}

}  // namespace easydel

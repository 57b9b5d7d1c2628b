// Template text to tokens, with Jinja's rules for white space.
#pragma once

#include <cstdint>

#include <string>
#include <string_view>
#include <vector>

#include "easydel/text/jinja/settings.h"

namespace easydel::jinja {

enum class TokenType : uint8_t {
  Data,
  BlockBegin,
  BlockEnd,
  VariableBegin,
  VariableEnd,
  Name,
  String,
  Integer,
  Float,
  Operator,
  End,
  Bad,  // a lexing error; the text is the message
};

struct Token {
  TokenType type = TokenType::End;
  int line = 1;
  std::string text;  // a name, an operator, the digits of a number, or the value of a string
};

// The text must be valid UTF-8. Ends in End, or in Bad at an error: the parser may find an earlier one.
std::vector<Token> tokenize(std::string_view source, const Settings& settings = {});

std::string describe(const Token& token);  // as error messages name it

// Throws TemplateError.
[[noreturn]] void raise_syntax(int line, const std::string& message);

}  // namespace easydel::jinja

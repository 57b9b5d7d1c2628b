// Checks JSON as it arrives, byte by byte.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace easydel::serve {

class JsonScanner {
 public:
  enum class Result { More, Done, Error };
  // The next byte of an object, an array or a string: Done at its last byte. A byte that gives Error is no part of it.
  // A number or a word alone never gives Done, since its end cannot be seen.
  Result accept(char byte);

 private:
  enum class State : uint8_t { Value, FirstValue, FirstKey, Key, Colon, After, String, Escape, Hex, Number, Word };
  enum class Digits : uint8_t { Sign, Zero, Whole, Point, Fraction, Exponent, ExponentSign, Power };

  Result value(char byte);
  Result string(char byte);
  Result number(char byte);
  Result after(char byte);
  Result open(char byte);
  Result end_value();

  static constexpr std::size_t kMaxDepth = 256;  // as Json::parse
  std::vector<char> open_;                       // '{' and '['
  State state_ = State::Value;
  Digits digits_ = Digits::Sign;
  bool is_key_ = false;
  int hex_left_ = 0;
  std::string_view word_;  // what remains of true, false or null
};

// Whether the whole text is one JSON object, perhaps with white space around it.
bool is_json_object(std::string_view text);

}  // namespace easydel::serve

#include "easydel/serve/output/json_scanner.h"

namespace easydel::serve {

namespace {

constexpr bool is_scanner_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }
constexpr bool is_scanner_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_scanner_hex(char c) {
  return is_scanner_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

}  // namespace

JsonScanner::Result JsonScanner::accept(char byte) {
  switch (state_) {
    case State::String:
    case State::Escape:
    case State::Hex: return string(byte);
    case State::Number: return number(byte);
    case State::Word:
      if (byte != word_.front()) return Result::Error;
      word_.remove_prefix(1);
      return word_.empty() ? end_value() : Result::More;
    default: break;
  }
  if (is_scanner_space(byte)) return Result::More;
  switch (state_) {
    case State::FirstKey:
    case State::Key:
      if (byte == '}' && state_ == State::FirstKey) return after(byte);
      if (byte != '"') return Result::Error;
      is_key_ = true;
      state_ = State::String;
      return Result::More;
    case State::Colon:
      if (byte != ':') return Result::Error;
      state_ = State::Value;
      return Result::More;
    case State::After: return after(byte);
    default: return value(byte);
  }
}

JsonScanner::Result JsonScanner::value(char byte) {
  if (byte == ']' && state_ == State::FirstValue) return after(byte);
  if (byte == '{' || byte == '[') return open(byte);
  if (byte == '"') {
    is_key_ = false;
    state_ = State::String;
  } else if (byte == '-' || is_scanner_digit(byte)) {
    digits_ = byte == '-' ? Digits::Sign : byte == '0' ? Digits::Zero : Digits::Whole;
    state_ = State::Number;
  } else if (byte == 't' || byte == 'f' || byte == 'n') {
    word_ = byte == 't' ? "rue" : byte == 'f' ? "alse" : "ull";
    state_ = State::Word;
  } else {
    return Result::Error;
  }
  return Result::More;
}

JsonScanner::Result JsonScanner::open(char byte) {
  if (open_.size() >= kMaxDepth) return Result::Error;
  open_.push_back(byte);
  state_ = byte == '{' ? State::FirstKey : State::FirstValue;
  return Result::More;
}

JsonScanner::Result JsonScanner::string(char byte) {
  switch (state_) {
    case State::Escape:
      if (std::string_view("\"\\/bfnrtu").find(byte) == std::string_view::npos) return Result::Error;
      hex_left_ = 4;
      state_ = byte == 'u' ? State::Hex : State::String;
      return Result::More;
    case State::Hex:
      if (!is_scanner_hex(byte)) return Result::Error;
      if (--hex_left_ == 0) state_ = State::String;
      return Result::More;
    default: break;
  }
  if (static_cast<unsigned char>(byte) < 0x20) return Result::Error;
  if (byte == '\\') state_ = State::Escape;
  if (byte != '"') return Result::More;
  if (!is_key_) return end_value();
  state_ = State::Colon;
  return Result::More;
}

JsonScanner::Result JsonScanner::number(char byte) {
  const bool digit = is_scanner_digit(byte);
  const bool exponent = byte == 'e' || byte == 'E';
  const auto go = [&](Digits next) {
    digits_ = next;
    return Result::More;
  };
  switch (digits_) {
    case Digits::Sign: return !digit ? Result::Error : go(byte == '0' ? Digits::Zero : Digits::Whole);
    case Digits::Zero:
    case Digits::Whole:
      if (digit && digits_ == Digits::Whole) return Result::More;
      if (byte == '.') return go(Digits::Point);
      if (exponent) return go(Digits::Exponent);
      break;
    case Digits::Point: return digit ? go(Digits::Fraction) : Result::Error;
    case Digits::Fraction:
      if (digit) return Result::More;
      if (exponent) return go(Digits::Exponent);
      break;
    case Digits::Exponent:
      if (byte == '+' || byte == '-') return go(Digits::ExponentSign);
      return digit ? go(Digits::Power) : Result::Error;
    case Digits::ExponentSign: return digit ? go(Digits::Power) : Result::Error;
    case Digits::Power:
      if (digit) return Result::More;
      break;
  }
  state_ = State::After;  // the number ended before this byte
  return is_scanner_space(byte) ? Result::More : after(byte);
}

JsonScanner::Result JsonScanner::after(char byte) {
  if (open_.empty()) return Result::Error;
  const bool object = open_.back() == '{';
  if (byte == ',') {
    state_ = object ? State::Key : State::Value;
    return Result::More;
  }
  if (byte != (object ? '}' : ']')) return Result::Error;
  open_.pop_back();
  return end_value();
}

JsonScanner::Result JsonScanner::end_value() {
  state_ = State::After;
  return open_.empty() ? Result::Done : Result::More;
}

bool is_json_object(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \n\t\r");
  if (first == std::string_view::npos || text[first] != '{') return false;
  JsonScanner scanner;
  for (std::size_t i = first; i < text.size(); ++i) {
    const auto result = scanner.accept(text[i]);
    if (result == JsonScanner::Result::Error) return false;
    if (result == JsonScanner::Result::Done) return text.find_first_not_of(" \n\t\r", i + 1) == std::string_view::npos;
  }
  return false;
}

}  // namespace easydel::serve

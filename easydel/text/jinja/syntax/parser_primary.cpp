// Names, literals, and what can follow them: subscripts, calls, filters, tests.
#include <charconv>
#include <set>

#include "easydel/text/jinja/printing.h"
#include "easydel/text/jinja/syntax/parser_impl.h"

namespace easydel::jinja {
namespace {

Value parse_integer(const Token& token) {
  std::string_view digits = token.text;
  int base = 10;
  if (digits.size() > 2 && digits[0] == '0' && digits[1] > '9') {
    const char letter = static_cast<char>(digits[1] | 0x20);
    base = letter == 'x' ? 16 : letter == 'o' ? 8 : 2;
    digits.remove_prefix(2);
  }
  int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (error != std::errc() || end != digits.data() + digits.size()) {
    raise_syntax(token.line, "the integer " + token.text + " does not fit in 64 bits (a limit of this engine)");
  }
  return value;
}

double parse_float(const std::string& digits) {
  double value = 0;
  const auto error = std::from_chars(digits.data(), digits.data() + digits.size(), value).ec;
  return error == std::errc::result_out_of_range ? std::strtod(digits.c_str(), nullptr) : value;
}

}  // namespace

ExprPtr Parser::parse_primary(bool with_namespace) {
  const Token& token = current();
  switch (token.type) {
    case TokenType::Name: {
      next();
      const std::string& name = token.text;
      auto expr = make(ExprKind::Const, token.line);
      if (name == "true" || name == "True") {
        expr->value = Value(true);
      } else if (name == "false" || name == "False") {
        expr->value = Value(false);
      } else if (name == "none" || name == "None") {
        expr->value = Value::none();
      } else if (with_namespace && skip_op(".")) {
        expr->kind = ExprKind::NamespaceTarget;
        expr->a = make(ExprKind::Name, token.line);
        expr->a->name = name;
        expr->name = expect_name().text;
      } else {
        expr->kind = ExprKind::Name;
        expr->name = name;
      }
      return expr;
    }
    case TokenType::String: {
      std::string text;
      while (current().type == TokenType::String) text += next().text;
      return make_constant(std::move(text), token.line);
    }
    case TokenType::Integer:
    case TokenType::Float: {
      next();
      auto expr = make(ExprKind::Const, token.line);
      expr->value = token.type == TokenType::Integer ? parse_integer(token) : Value(parse_float(token.text));
      return expr;
    }
    default: break;
  }
  if (skip_op("(")) {
    ExprPtr expr = parse_tuple({.parentheses = true});
    expect_op(")");
    return expr;
  }
  if (is_op("[")) return parse_list();
  if (is_op("{")) return parse_dict();
  fail(concat("unexpected ", quoted(describe(token))), token.line);
}

ExprPtr Parser::parse_tuple(const TupleRules& rules) {
  const Level level(nesting_);
  if (nesting_ > kMaxNesting) {
    fail("the expression is nested too deep (a limit of this engine)");
  }
  auto tuple = make(ExprKind::Tuple, current().line);
  bool is_tuple = false;
  while (true) {
    if (!tuple->items.empty()) expect_op(",");
    const bool ended = current().type == TokenType::VariableEnd || current().type == TokenType::BlockEnd || is_op(")");
    if (ended) break;
    tuple->items.push_back(rules.simplified ? parse_primary(rules.with_namespace)
                                            : parse_expression(rules.conditional));
    if (!is_op(",")) break;
    is_tuple = true;
  }
  if (!is_tuple) {
    if (!tuple->items.empty()) return std::move(tuple->items[0]);
    if (!rules.parentheses) fail(concat("Expected an expression, got ", quoted(describe(current()))));
  }
  return seal(std::move(tuple));
}

ExprPtr Parser::parse_list() {
  auto list = make(ExprKind::List, expect_op("[").line);
  while (!is_op("]")) {
    if (!list->items.empty()) expect_op(",");
    if (is_op("]")) break;
    list->items.push_back(parse_expression());
  }
  expect_op("]");
  return seal(std::move(list));
}

ExprPtr Parser::parse_dict() {
  auto dict = make(ExprKind::Dict, expect_op("{").line);
  while (!is_op("}")) {
    if (!dict->pairs.empty()) expect_op(",");
    if (is_op("}")) break;
    ExprPtr key = parse_expression();
    expect_op(":");
    dict->pairs.emplace_back(std::move(key), parse_expression());
  }
  expect_op("}");
  return seal(std::move(dict));
}

ExprPtr Parser::parse_postfix(ExprPtr expr) {
  while (true) {
    if (is_op(".") || is_op("[")) {
      expr = parse_subscript(std::move(expr));
    } else if (is_op("(")) {
      expr = parse_call(std::move(expr));
    } else {
      return expr;
    }
  }
}

ExprPtr Parser::parse_filter_expression(ExprPtr expr) {
  while (true) {
    if (is_op("|")) {
      expr = parse_filter(std::move(expr));
    } else if (is_name("is")) {
      expr = parse_test(std::move(expr));
    } else if (is_op("(")) {
      expr = parse_call(std::move(expr));
    } else {
      return expr;
    }
  }
}

ExprPtr Parser::parse_subscript(ExprPtr expr) {
  const Token& token = next();
  auto out = make(ExprKind::Item, token.line);
  out->a = std::move(expr);
  if (token.text == ".") {
    const Token& attribute = next();
    if (attribute.type == TokenType::Name) {
      out->kind = ExprKind::Attribute;
      out->name = attribute.text;
      return seal(std::move(out));
    }
    if (attribute.type != TokenType::Integer) fail("expected name or number", attribute.line);
    out->b = make(ExprKind::Const, attribute.line);
    out->b->value = parse_integer(attribute);
    return seal(std::move(out));
  }
  auto keys = make(ExprKind::Tuple, token.line);
  while (!is_op("]")) {
    if (!keys->items.empty()) expect_op(",");
    keys->items.push_back(parse_subscribed());
  }
  expect_op("]");
  out->b = keys->items.size() == 1 ? std::move(keys->items[0]) : seal(std::move(keys));
  return seal(std::move(out));
}

ExprPtr Parser::parse_subscribed() {
  auto slice = make(ExprKind::Slice, current().line);
  const auto ends = [&] { return is_op("]") || is_op(","); };
  if (!skip_op(":")) {
    ExprPtr key = parse_expression();
    if (!skip_op(":")) return key;
    slice->a = std::move(key);
  }
  if (!is_op(":") && !ends()) slice->b = parse_expression();
  if (skip_op(":") && !ends()) slice->c = parse_expression();
  return seal(std::move(slice));
}

Arguments Parser::parse_arguments() {
  const int line = expect_op("(").line;
  Arguments out;
  std::set<std::string> names;
  const auto ensure = [&](bool condition) {
    if (!condition) fail("invalid syntax for function call expression", line);
  };
  bool comma = false;
  while (!is_op(")")) {
    if (comma) {
      expect_op(",");
      if (is_op(")")) break;
    }
    comma = true;
    if (skip_op("*")) {
      ensure(!out.star && !out.double_star);
      out.star = parse_expression();
    } else if (skip_op("**")) {
      ensure(!out.double_star);
      out.double_star = parse_expression();
    } else if (current().type == TokenType::Name && look().type == TokenType::Operator && look().text == "=") {
      ensure(!out.double_star);
      const std::string name = next().text;
      next();
      if (!names.insert(name).second) fail(concat("keyword argument repeated: ", name));
      out.named.emplace_back(name, parse_expression());
    } else {
      ensure(!out.star && !out.double_star && out.named.empty());
      out.positional.push_back(parse_expression());
    }
  }
  expect_op(")");
  return out;
}

ExprPtr Parser::parse_call(ExprPtr expr) {
  auto call = make(ExprKind::Call, current().line);
  call->arguments = parse_arguments();
  call->a = std::move(expr);
  return seal(std::move(call));
}

ExprPtr Parser::parse_filter(ExprPtr expr, bool inline_start) {
  while (is_op("|") || inline_start) {
    if (!inline_start) next();
    const Token& token = expect_name();
    auto filter = make(ExprKind::Filter, token.line);
    filter->name = token.text;
    while (skip_op(".")) filter->name += "." + expect_name().text;
    if (is_op("(")) filter->arguments = parse_arguments();
    filter->a = std::move(expr);
    expr = seal(std::move(filter));
    inline_start = false;
  }
  return expr;
}

ExprPtr Parser::parse_test(ExprPtr expr) {
  auto test = make(ExprKind::Test, next().line);
  const bool negated = skip_name("not");
  test->name = expect_name().text;
  while (skip_op(".")) test->name += "." + expect_name().text;
  if (is_op("(")) {
    test->arguments = parse_arguments();
  } else {
    const TokenType type = current().type;
    const bool starts = type == TokenType::Name || type == TokenType::String || type == TokenType::Integer ||
                        type == TokenType::Float || is_op("[") || is_op("{");
    if (starts && !is_name("else") && !is_name("or") && !is_name("and")) {
      if (is_name("is")) fail("You cannot chain multiple tests with is");
      ExprPtr argument = parse_primary();
      test->arguments.positional.push_back(parse_postfix(std::move(argument)));
    }
  }
  test->a = std::move(expr);
  test = seal(std::move(test));
  if (!negated) return test;
  auto inverse = make(ExprKind::Not, test->line);
  inverse->a = std::move(test);
  return seal(std::move(inverse));
}

}  // namespace easydel::jinja

#include <charconv>

#include "easydel/tokenizers/jinja/parser_impl.h"
#include "easydel/tokenizers/jinja/printing.h"
#include "easydel/tokenizers/jinja/unicode.h"

namespace easydel::jinja {
namespace {

// Counts how deep the parser calls itself.
struct Level {
  explicit Level(int& count) : count_(count) { ++count_; }
  ~Level() { --count_; }
  int& count_;
};

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
    raise_syntax(token.line, "the integer " + token.text + " does not fit into 64 bits (a limit of this engine)");
  }
  return value;
}

double parse_float(const std::string& digits) {
  double value = 0;
  const auto error = std::from_chars(digits.data(), digits.data() + digits.size(), value).ec;
  return error == std::errc::result_out_of_range ? std::strtod(digits.c_str(), nullptr) : value;
}

}  // namespace

ExprPtr Parser::make(ExprKind kind, int line) const {
  auto expr = std::make_unique<Expr>();
  expr->kind = kind;
  expr->line = line;
  return expr;
}

ExprPtr Parser::make_constant(std::string text, int line) {
  auto data = std::make_unique<StringData>();
  data->length = count_characters(text);
  data->text = std::move(text);
  auto expr = make(ExprKind::Const, line);
  expr->value = Value(data.get());
  constants_.push_back(std::move(data));
  return expr;
}

ExprPtr Parser::seal(ExprPtr expr) const {
  int deepest = 0;
  const auto see = [&](const ExprPtr& child) {
    if (child) deepest = std::max(deepest, child->depth);
  };
  see(expr->a), see(expr->b), see(expr->c), see(expr->arguments.star), see(expr->arguments.double_star);
  for (const auto& item : expr->items) see(item);
  for (const auto& [key, value] : expr->pairs) see(key), see(value);
  for (const auto& [op, operand] : expr->comparisons) see(operand);
  for (const auto& argument : expr->arguments.positional) see(argument);
  for (const auto& [name, argument] : expr->arguments.named) see(argument);
  expr->depth = deepest + 1;
  if (expr->depth > kMaxExpressionDepth) {
    raise_syntax(expr->line, concat("the expression is nested more than ", kMaxExpressionDepth,
                                    " levels deep (a limit of this engine)"));
  }
  return expr;
}

ExprPtr Parser::binary(Operator op, ExprPtr left, ExprPtr right, int line) {
  auto expr = make(ExprKind::Binary, line);
  expr->op = op;
  expr->a = std::move(left);
  expr->b = std::move(right);
  return seal(std::move(expr));
}

ExprPtr Parser::parse_expression(bool conditional) {
  const Level level(nesting_);
  if (nesting_ > kMaxNesting) {
    fail("the expression is nested too deep (a limit of this engine)");
  }
  if (!conditional) return parse_or();
  int line = current().line;
  ExprPtr expr = parse_or();
  while (skip_name("if")) {
    auto whole = make(ExprKind::Conditional, line);
    whole->a = parse_or();
    whole->b = std::move(expr);
    if (skip_name("else")) whole->c = parse_expression();
    expr = seal(std::move(whole));
    line = current().line;
  }
  return expr;
}

ExprPtr Parser::parse_or() {
  int line = current().line;
  ExprPtr left = parse_and();
  while (skip_name("or")) {
    left = binary(Operator::Add, std::move(left), parse_and(), line);
    left->kind = ExprKind::Or;
    line = current().line;
  }
  return left;
}

ExprPtr Parser::parse_and() {
  int line = current().line;
  ExprPtr left = parse_not();
  while (skip_name("and")) {
    left = binary(Operator::Add, std::move(left), parse_not(), line);
    left->kind = ExprKind::And;
    line = current().line;
  }
  return left;
}

ExprPtr Parser::parse_not() {
  if (!is_name("not")) return parse_compare();
  const Level level(nesting_);
  if (nesting_ > kMaxNesting) fail("too many `not` in a row (a limit of this engine)");
  auto expr = make(ExprKind::Not, next().line);
  expr->a = parse_not();
  return seal(std::move(expr));
}

ExprPtr Parser::parse_compare() {
  static const std::vector<std::pair<std::string_view, Operator>> kOperators{
      {"==", Operator::Equal},     {"!=", Operator::NotEqual}, {"<", Operator::Less},
      {"<=", Operator::LessEqual}, {">", Operator::Greater},   {">=", Operator::GreaterEqual}};
  const int line = current().line;
  ExprPtr first = parse_sum();
  std::vector<std::pair<Operator, ExprPtr>> comparisons;
  while (true) {
    const std::pair<std::string_view, Operator>* found = nullptr;
    for (const auto& candidate : kOperators) {
      if (is_op(candidate.first)) found = &candidate;
    }
    if (found) {
      next();
      comparisons.emplace_back(found->second, parse_sum());
    } else if (skip_name("in")) {
      comparisons.emplace_back(Operator::In, parse_sum());
    } else if (is_name("not") && look().type == TokenType::Name && look().text == "in") {
      next();
      next();
      comparisons.emplace_back(Operator::NotIn, parse_sum());
    } else {
      break;
    }
  }
  if (comparisons.empty()) return first;
  auto expr = make(ExprKind::Compare, line);
  expr->a = std::move(first);
  expr->comparisons = std::move(comparisons);
  return seal(std::move(expr));
}

ExprPtr Parser::parse_sum() {
  int line = current().line;
  ExprPtr left = parse_concat();
  while (is_op("+") || is_op("-")) {
    const Operator op = next().text == "+" ? Operator::Add : Operator::Subtract;
    left = binary(op, std::move(left), parse_concat(), line);
    line = current().line;
  }
  return left;
}

ExprPtr Parser::parse_concat() {
  auto expr = make(ExprKind::Concat, current().line);
  expr->items.push_back(parse_product());
  while (skip_op("~")) expr->items.push_back(parse_product());
  if (expr->items.size() == 1) return std::move(expr->items[0]);
  return seal(std::move(expr));
}

ExprPtr Parser::parse_product() {
  int line = current().line;
  ExprPtr left = parse_power();
  while (is_op("*") || is_op("/") || is_op("//") || is_op("%")) {
    const std::string& text = next().text;
    const Operator op = text == "*"    ? Operator::Multiply
                        : text == "/"  ? Operator::Divide
                        : text == "//" ? Operator::FloorDivide
                                       : Operator::Modulo;
    left = binary(op, std::move(left), parse_power(), line);
    line = current().line;
  }
  return left;
}

ExprPtr Parser::parse_power() {
  int line = current().line;
  ExprPtr left = parse_unary();
  while (skip_op("**")) {
    left = binary(Operator::Power, std::move(left), parse_unary(), line);
    line = current().line;
  }
  return left;
}

ExprPtr Parser::parse_unary(bool with_filter) {
  const Level level(nesting_);
  if (nesting_ > kMaxNesting) fail("too many signs in a row (a limit of this engine)");
  ExprPtr expr;
  if (is_op("-") || is_op("+")) {
    const Token& sign = next();
    expr = make(sign.text == "-" ? ExprKind::Negative : ExprKind::Positive, sign.line);
    expr->a = parse_unary(false);
    expr = seal(std::move(expr));
  } else {
    expr = parse_primary();
  }
  expr = parse_postfix(std::move(expr));
  return with_filter ? parse_filter_expression(std::move(expr)) : std::move(expr);
}

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
      for (const auto& [other, value] : out.named) {
        if (other == name) fail(concat("keyword argument repeated: ", name));
      }
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

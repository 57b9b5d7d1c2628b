// Operators, from the loosest to the tightest.
#include "easydel/text/jinja/builtins/unicode.h"
#include "easydel/text/jinja/printing.h"
#include "easydel/text/jinja/syntax/parser_impl.h"

namespace easydel::jinja {
namespace {

bool needs_context(std::string_view filter) {
  return filter == "map" || filter == "random" || filter.starts_with("select") || filter.starts_with("reject");
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
  expr->constant = expr->kind != ExprKind::Call && !(expr->kind == ExprKind::Filter && needs_context(expr->name));
  const auto see = [&](const ExprPtr& child) {
    if (!child) return;
    deepest = std::max(deepest, child->depth);
    expr->constant = expr->constant && (child->constant || child->kind == ExprKind::Const);
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

}  // namespace easydel::jinja

// The parser's state, shared by its two halves.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "easydel/core/error.h"
#include "easydel/text/jinja/syntax/lexer.h"
#include "easydel/text/jinja/syntax/parser.h"

namespace easydel::jinja {

constexpr int kMaxExpressionDepth = 200;  // of the tree
constexpr int kMaxNesting = 400;          // of the parser's own calls
constexpr int kMaxStatementDepth = 50;

// Counts how deep the parser calls itself.
struct Level {
  explicit Level(int& count) : count_(count) { ++count_; }
  ~Level() { --count_; }
  int& count_;
};

class Parser {
 public:
  Parser(std::string_view source, const Settings& settings) : tokens_(tokenize(source, settings)) { check(tokens_[0]); }
  Body parse_all();
  std::vector<std::unique_ptr<StringData>> constants() { return std::move(constants_); }

 private:
  // The stream.
  const Token& current() const { return tokens_[at_]; }
  const Token& look() const { return check(tokens_[std::min(at_ + 1, tokens_.size() - 1)]); }
  static const Token& check(const Token& token);  // throws for a bad one
  const Token& next();
  bool is_name(std::string_view name) const { return current().type == TokenType::Name && current().text == name; }
  bool is_op(std::string_view op) const { return current().type == TokenType::Operator && current().text == op; }
  bool is_any_name(const std::vector<std::string>& names) const;
  bool skip_name(std::string_view name);
  bool skip_op(std::string_view op);
  const Token& expect(TokenType type, std::string_view text, std::string_view described);
  const Token& expect_name() { return expect(TokenType::Name, "", "name"); }
  const Token& expect_name(std::string_view name) { return expect(TokenType::Name, name, name); }
  const Token& expect_op(std::string_view op) { return expect(TokenType::Operator, op, op); }
  void expect_block_end() { expect(TokenType::BlockEnd, "", "end of statement block"); }
  [[noreturn]] void fail(const std::string& message, int line = 0) const;
  [[noreturn]] void fail_tag(const std::string* name, int line) const;

  // Statements.
  Body subparse(const std::vector<std::string>& ends, bool whole);
  Body parse_statements(std::vector<std::string> ends, bool drop);
  void parse_statement(Body& body);
  Stmt parse_for();
  Stmt parse_if();
  Stmt parse_set();
  Stmt parse_with();
  Stmt parse_macro();
  Stmt parse_call_block();
  Stmt parse_filter_block();
  Stmt parse_autoescape();
  Stmt parse_block();
  Stmt parse_generation();
  Stmt parse_print();
  Stmt parse_unsupported();
  void parse_signature(Stmt& stmt);
  ExprPtr parse_target(bool with_namespace = false);
  Stmt begin(StmtKind kind);  // consumes the tag's name

  // Expressions.
  struct TupleRules {
    bool simplified = false;  // names and literals only
    bool conditional = true;
    bool parentheses = false;  // allows an empty tuple
    bool with_namespace = false;
  };
  ExprPtr parse_tuple(const TupleRules& rules);
  ExprPtr parse_tuple() { return parse_tuple(TupleRules{}); }
  ExprPtr parse_expression(bool conditional = true);
  ExprPtr parse_or();
  ExprPtr parse_and();
  ExprPtr parse_not();
  ExprPtr parse_compare();
  ExprPtr parse_sum();
  ExprPtr parse_concat();
  ExprPtr parse_product();
  ExprPtr parse_power();
  ExprPtr parse_unary(bool with_filter = true);
  ExprPtr parse_primary(bool with_namespace = false);
  ExprPtr parse_list();
  ExprPtr parse_dict();
  ExprPtr parse_postfix(ExprPtr expr);
  ExprPtr parse_filter_expression(ExprPtr expr);
  ExprPtr parse_subscript(ExprPtr expr);
  ExprPtr parse_subscribed();
  ExprPtr parse_call(ExprPtr expr);
  ExprPtr parse_filter(ExprPtr expr, bool inline_start = false);
  ExprPtr parse_test(ExprPtr expr);
  Arguments parse_arguments();

  ExprPtr make(ExprKind kind, int line) const;
  ExprPtr make_constant(std::string text, int line);
  ExprPtr binary(Operator op, ExprPtr left, ExprPtr right, int line);
  ExprPtr seal(ExprPtr expr) const;  // sets and checks the depth of the tree

  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int nesting_ = 0;
  std::vector<std::string> tags_;
  std::vector<std::vector<std::string>> ends_;
  std::vector<std::unique_ptr<StringData>> constants_;
};

}  // namespace easydel::jinja

#include "easydel/text/jinja/syntax/parser.h"

#include <algorithm>
#include <set>

#include "easydel/text/jinja/printing.h"
#include "easydel/text/jinja/scopes.h"
#include "easydel/text/jinja/syntax/parser_impl.h"

namespace easydel::jinja {
namespace {

bool can_assign(const Expr& expr) {
  if (expr.kind == ExprKind::Tuple) {
    return std::all_of(expr.items.begin(), expr.items.end(), [](const ExprPtr& item) { return can_assign(*item); });
  }
  return expr.kind == ExprKind::Name || expr.kind == ExprKind::NamespaceTarget;
}

const char* kind_name(ExprKind kind) {
  switch (kind) {
    case ExprKind::Const: return "'const'";
    case ExprKind::List: return "'list'";
    case ExprKind::Dict: return "'dict'";
    case ExprKind::Tuple: return "'tuple'";
    default: return "this expression";
  }
}

std::string alternatives(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : " or ") + quoted(name);
  return out;
}

}  // namespace

const Token& Parser::check(const Token& token) {
  if (token.type == TokenType::Bad) raise_syntax(token.line, token.text);
  return token;
}

const Token& Parser::next() {
  const Token& token = tokens_[at_];
  if (at_ + 1 < tokens_.size()) check(tokens_[++at_]);
  return token;
}

bool Parser::is_any_name(const std::vector<std::string>& names) const {
  return current().type == TokenType::Name && std::find(names.begin(), names.end(), current().text) != names.end();
}

bool Parser::skip_name(std::string_view name) {
  if (!is_name(name)) return false;
  next();
  return true;
}

bool Parser::skip_op(std::string_view op) {
  if (!is_op(op)) return false;
  next();
  return true;
}

const Token& Parser::expect(TokenType type, std::string_view text, std::string_view described) {
  if (current().type != type || (!text.empty() && current().text != text)) {
    if (current().type == TokenType::End) {
      fail(concat("unexpected end of template, expected ", quoted(std::string(described)), "."));
    }
    fail(concat("expected token ", quoted(std::string(described)), ", got ", quoted(describe(current()))));
  }
  return next();
}

void Parser::fail(const std::string& message, int line) const {
  raise_syntax(line == 0 ? current().line : line, message);
}

// An unknown tag, or the end of the template (a null name) where an end tag is missing.
void Parser::fail_tag(const std::string* name, int line) const {
  std::string message = name ? "Encountered unknown tag " + quoted(*name) + "." : "Unexpected end of template.";
  if (!ends_.empty()) {
    const bool expected = name && std::any_of(ends_.begin(), ends_.end(), [&](const auto& ends) {
                            return std::find(ends.begin(), ends.end(), *name) != ends.end();
                          });
    message += expected
                   ? " You probably made a nesting mistake. Jinja is expecting this tag, but currently looking for " +
                         alternatives(ends_.back()) + "."
                   : " Jinja was looking for the following tags: " + alternatives(ends_.back()) + ".";
  }
  if (!tags_.empty()) message += " The innermost block that needs to be closed is " + quoted(tags_.back()) + ".";
  fail(message, line);
}

Body Parser::parse_all() {
  Body body = subparse({}, true);
  return body;
}

Body Parser::subparse(const std::vector<std::string>& ends, bool whole) {
  Body body;
  if (!whole) ends_.push_back(ends);
  if (ends_.size() > static_cast<std::size_t>(kMaxStatementDepth)) {
    fail(concat("statements are nested more than ", kMaxStatementDepth, " levels deep (a limit of this engine)"));
  }
  while (current().type != TokenType::End) {
    const Token& token = next();
    if (token.type == TokenType::Data) {
      Stmt text;
      text.kind = StmtKind::Text;
      text.line = token.line;
      text.name = token.text;
      body.push_back(std::move(text));
    } else if (token.type == TokenType::VariableBegin) {
      Stmt print;
      print.kind = StmtKind::Print;
      print.line = current().line;
      print.items.push_back(parse_tuple());
      expect(TokenType::VariableEnd, "", "end of print statement");
      body.push_back(std::move(print));
    } else {
      if (!whole && is_any_name(ends)) break;
      parse_statement(body);
      expect_block_end();
    }
  }
  if (!whole && current().type == TokenType::End) fail_tag(nullptr, 0);
  if (!whole) ends_.pop_back();
  return body;
}

Body Parser::parse_statements(std::vector<std::string> ends, bool drop) {
  skip_op(":");
  expect_block_end();
  Body body = subparse(ends, false);
  if (drop) next();
  return body;
}

Stmt Parser::begin(StmtKind kind) {
  Stmt stmt;
  stmt.kind = kind;
  stmt.line = next().line;
  return stmt;
}

void Parser::parse_statement(Body& body) {
  const Token& token = current();
  if (token.type != TokenType::Name) fail("tag name expected", token.line);
  tags_.push_back(token.text);
  const std::string& tag = token.text;
  if (tag == "for") {
    body.push_back(parse_for());
  } else if (tag == "if") {
    body.push_back(parse_if());
  } else if (tag == "set") {
    body.push_back(parse_set());
  } else if (tag == "macro") {
    body.push_back(parse_macro());
  } else if (tag == "call") {
    body.push_back(parse_call_block());
  } else if (tag == "filter") {
    body.push_back(parse_filter_block());
  } else if (tag == "with") {
    body.push_back(parse_with());
  } else if (tag == "generation") {
    body.push_back(parse_generation());
  } else if (tag == "break") {
    body.push_back(begin(StmtKind::Break));
  } else if (tag == "continue") {
    body.push_back(begin(StmtKind::Continue));
  } else if (tag == "print") {
    body.push_back(parse_print());
  } else if (tag == "autoescape") {
    body.push_back(parse_autoescape());
  } else if (tag == "block") {
    body.push_back(parse_block());
  } else if (tag == "extends" || tag == "include" || tag == "import" || tag == "from") {
    body.push_back(parse_unsupported());
  } else {
    tags_.pop_back();
    fail_tag(&tag, token.line);
  }
  tags_.pop_back();
}

ExprPtr Parser::parse_target(bool with_namespace) {
  ExprPtr target = parse_tuple({.simplified = true, .with_namespace = with_namespace});
  if (!can_assign(*target)) fail(concat("can't assign to ", kind_name(target->kind)), target->line);
  return target;
}

Stmt Parser::parse_for() {
  Stmt stmt = begin(StmtKind::For);
  stmt.target = parse_target();
  expect_name("in");
  stmt.value = parse_tuple({.conditional = false});
  if (skip_name("if")) stmt.test = parse_expression();
  stmt.recursive = skip_name("recursive");
  stmt.body = parse_statements({"endfor", "else"}, false);
  if (next().text == "else") stmt.otherwise = parse_statements({"endfor"}, true);
  return stmt;
}

Stmt Parser::parse_if() {
  Stmt stmt = begin(StmtKind::If);
  while (true) {
    Branch branch;
    branch.test = parse_tuple({.conditional = false});
    branch.body = parse_statements({"elif", "else", "endif"}, false);
    stmt.branches.push_back(std::move(branch));
    const std::string& end = next().text;
    if (end == "elif") continue;
    if (end == "else") stmt.otherwise = parse_statements({"endif"}, true);
    return stmt;
  }
}

Stmt Parser::parse_set() {
  Stmt stmt = begin(StmtKind::Set);
  stmt.target = parse_target(true);
  if (skip_op("=")) {
    stmt.value = parse_tuple();
    return stmt;
  }
  stmt.kind = StmtKind::SetBlock;
  stmt.value = parse_filter(nullptr);
  stmt.body = parse_statements({"endset"}, true);
  return stmt;
}

Stmt Parser::parse_with() {
  Stmt stmt = begin(StmtKind::With);
  while (current().type != TokenType::BlockEnd) {
    if (!stmt.items.empty()) expect_op(",");
    stmt.items.push_back(parse_target());
    expect_op("=");
    stmt.values.push_back(parse_expression());
  }
  stmt.body = parse_statements({"endwith"}, true);
  return stmt;
}

void Parser::parse_signature(Stmt& stmt) {
  std::set<std::string> names;
  expect_op("(");
  while (!is_op(")")) {
    if (!stmt.parameters.empty()) expect_op(",");
    const Token& name = expect_name();
    if (!names.insert(name.text).second) {
      fail(concat("duplicate argument ", quoted(name.text), " in function definition"), name.line);
    }
    if (skip_op("=")) {
      stmt.defaults.push_back(parse_expression());
    } else if (!stmt.defaults.empty()) {
      fail("non-default argument follows default argument");
    }
    stmt.parameters.push_back(name.text);
  }
  expect_op(")");
}

Stmt Parser::parse_macro() {
  Stmt stmt = begin(StmtKind::Macro);
  stmt.name = expect_name().text;
  parse_signature(stmt);
  stmt.body = parse_statements({"endmacro"}, true);
  return stmt;
}

Stmt Parser::parse_call_block() {
  Stmt stmt = begin(StmtKind::CallBlock);
  if (is_op("(")) parse_signature(stmt);
  stmt.value = parse_expression();
  if (stmt.value->kind != ExprKind::Call) fail("expected call", stmt.line);
  stmt.body = parse_statements({"endcall"}, true);
  return stmt;
}

Stmt Parser::parse_filter_block() {
  Stmt stmt = begin(StmtKind::FilterBlock);
  stmt.value = parse_filter(nullptr, true);
  stmt.body = parse_statements({"endfilter"}, true);
  return stmt;
}

Stmt Parser::parse_generation() {
  Stmt stmt = begin(StmtKind::Generation);
  stmt.body = parse_statements({"endgeneration"}, true);
  return stmt;
}

Stmt Parser::parse_autoescape() {
  Stmt stmt = begin(StmtKind::Scope);
  stmt.value = parse_expression();
  stmt.body = parse_statements({"endautoescape"}, true);
  return stmt;
}

Stmt Parser::parse_block() {
  Stmt stmt = begin(StmtKind::Block);
  stmt.name = expect_name().text;
  if (is_name("scoped") || is_name("required")) {
    fail("scoped and required blocks are for templates that extend others, which a chat template cannot");
  }
  stmt.body = parse_statements({"endblock"}, true);
  skip_name(stmt.name);
  return stmt;
}

Stmt Parser::parse_print() {
  Stmt stmt = begin(StmtKind::Print);
  while (current().type != TokenType::BlockEnd) {
    if (!stmt.items.empty()) expect_op(",");
    stmt.items.push_back(parse_expression());
  }
  return stmt;
}

Stmt Parser::parse_unsupported() {
  const std::string tag = current().text;
  Stmt stmt = begin(StmtKind::Unsupported);
  stmt.name = tag;
  while (current().type != TokenType::BlockEnd && current().type != TokenType::End) next();
  return stmt;
}

ParsedTemplate parse_template(std::string_view source, const Settings& settings) {
  Parser parser(source, settings);
  ParsedTemplate out;
  out.body = parser.parse_all();
  out.constants = parser.constants();
  resolve_names(out);
  return out;
}

}  // namespace easydel::jinja

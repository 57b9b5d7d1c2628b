// A parsed template: statements and expressions, with every name resolved to a slot of a frame.
#pragma once

#include <cstdint>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "easydel/text/jinja/value.h"

namespace easydel::jinja {

struct Builtin;  // a filter or a test

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

enum class ExprKind : uint8_t {
  Const,
  Name,
  Attribute,
  Item,
  Slice,
  Call,
  Filter,
  Test,
  List,
  Tuple,
  Dict,
  Conditional,
  Or,
  And,
  Not,
  Negative,
  Positive,
  Binary,
  Compare,
  Concat,
  NamespaceTarget,  // `ns.name` on the left of an assignment
};

enum class Operator : uint8_t {
  Add,
  Subtract,
  Multiply,
  Divide,
  FloorDivide,
  Modulo,
  Power,
  Equal,
  NotEqual,
  Less,
  LessEqual,
  Greater,
  GreaterEqual,
  In,
  NotIn,
};

// A variable: the number of frames up, and the slot there.
struct Ref {
  int up = 0;
  int slot = 0;
};

struct Arguments {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr star, double_star;
};

struct Expr {
  ExprKind kind = ExprKind::Const;
  Operator op = Operator::Add;
  bool soft = false;      // filters and tests: an unknown name is an error only when it is evaluated
  bool constant = false;  // jinja2 computes it before the template runs
  int line = 0;
  int depth = 1;  // of the tree below
  Ref ref;
  std::string name;
  Value value;
  ExprPtr a, b, c;  // operands; of a slice: start, stop, step; of a conditional: test, then, else
  std::vector<ExprPtr> items;
  std::vector<std::pair<ExprPtr, ExprPtr>> pairs;
  std::vector<std::pair<Operator, ExprPtr>> comparisons;
  Arguments arguments;
  const Builtin* builtin = nullptr;
};

// How a slot is initialized when a frame is entered.
struct Load {
  enum Kind : uint8_t { Parameter, Resolve, Alias, Unset } kind = Unset;
  Ref outer;  // Alias: seen from the frame itself, so `up` is at least 1
};

struct FrameLayout {
  std::vector<std::string> names;
  std::vector<Load> loads;  // of each slot
  bool captured = false;    // a macro or a recursive loop inside refers to the frame
};

struct Stmt;
using Body = std::vector<Stmt>;

enum class StmtKind : uint8_t {
  Text,
  Print,
  If,
  For,
  Set,
  SetBlock,
  Macro,
  CallBlock,
  FilterBlock,
  With,
  Scope,
  Block,
  Generation,
  Break,
  Continue,
  Unsupported,  // needs a loader of templates, which a chat template does not have
};

struct Branch;

struct Stmt {
  StmtKind kind = StmtKind::Text;
  bool recursive = false;
  bool toplevel = false;  // assignments are visible to blocks and macros by name
  int line = 0;
  std::string name;  // or the text
  ExprPtr target, value, test;
  ExprPtr test_target;         // the loop's target, seen from the frame of its filter
  std::vector<ExprPtr> items;  // printed expressions; targets of `with`
  std::vector<ExprPtr> values;
  std::vector<Branch> branches;
  Body body, otherwise;
  FrameLayout frame, test_frame, else_frame;

  // Macros and call blocks.
  std::vector<std::string> parameters;
  std::vector<Ref> parameter_refs;
  std::vector<ExprPtr> defaults;  // of the last parameters
  Ref name_ref, caller_ref, kwargs_ref, varargs_ref, loop_ref;
  bool uses_caller = false, uses_kwargs = false, uses_varargs = false, uses_loop = false;
};

struct Branch {
  ExprPtr test;
  Body body;
};

}  // namespace easydel::jinja

#include "easydel/text/jinja/interpreter.h"
#include "easydel/text/jinja/operators.h"
#include "easydel/text/jinja/printing.h"

namespace easydel::jinja {

Value Interpreter::evaluate(const Expr& expr, Frame& frame) {
  const Nested nested(*this);
  spend(1);
  switch (expr.kind) {
    case ExprKind::Const: return expr.value;
    case ExprKind::Name: return evaluate_name(expr, frame);
    case ExprKind::Attribute: return get_attribute(*this, evaluate(*expr.a, frame), expr.name);
    case ExprKind::Item:
    case ExprKind::Slice: return evaluate_item(expr, frame);
    case ExprKind::Call: return evaluate_call(expr, frame);
    case ExprKind::Filter:
    case ExprKind::Test: return evaluate_builtin(expr, frame, nullptr);
    case ExprKind::List:
    case ExprKind::Tuple:
    case ExprKind::Dict: return evaluate_literal(expr, frame);
    case ExprKind::Conditional:
      if (truth(*this, evaluate(*expr.a, frame))) return evaluate(*expr.b, frame);
      if (expr.c) return evaluate(*expr.c, frame);
      {
        Value nothing = undefined(concat("the inline if-expression on line ", expr.line,
                                         " evaluated to false and no else section was defined."));
        nothing.as<UndefinedData>().lenient = true;
        return nothing;
      }
    case ExprKind::Or: {
      Value left = evaluate(*expr.a, frame);
      return truth(*this, left) ? left : evaluate(*expr.b, frame);
    }
    case ExprKind::And: {
      Value left = evaluate(*expr.a, frame);
      return truth(*this, left) ? evaluate(*expr.b, frame) : left;
    }
    case ExprKind::Not: return !truth(*this, evaluate(*expr.a, frame));
    case ExprKind::Negative: return negative(evaluate(*expr.a, frame));
    case ExprKind::Positive: return positive(evaluate(*expr.a, frame));
    case ExprKind::Binary: {
      const Value left = evaluate(*expr.a, frame);
      const Value right = evaluate(*expr.b, frame);
      // jinja2 emits a constant as Python source, where the sign of -2 ** x applies to the power.
      const bool sign_last = expr.op == Operator::Power && !expr.constant && expr.a->constant && left.is_number() &&
                             left.number() < 0 && !left.is(Type::Bool);
      return sign_last ? negative(binary(*this, expr.op, negative(left), right)) : binary(*this, expr.op, left, right);
    }
    case ExprKind::Compare: return evaluate_compare(expr, frame);
    case ExprKind::Concat: return evaluate_concat(expr, frame);
    case ExprKind::NamespaceTarget: break;
  }
  return {};
}

Value Interpreter::evaluate_name(const Expr& expr, Frame& frame) {
  const Value& value = slot(frame, expr.ref);
  return value.is_missing() ? undefined(quoted(expr.name) + " is undefined") : value;
}

Value Interpreter::evaluate_item(const Expr& expr, Frame& frame) {
  const auto optional = [&](const ExprPtr& part) { return part ? evaluate(*part, frame) : Value(); };
  if (expr.kind == ExprKind::Slice) {
    auto* slice = make<SliceData>();
    slice->start = optional(expr.a);
    slice->stop = optional(expr.b);
    slice->step = optional(expr.c);
    return Value(Type::Slice, slice);
  }
  const Value object = evaluate(*expr.a, frame);
  if (expr.b->kind == ExprKind::Slice) {
    const Expr& slice = *expr.b;
    const Value start = optional(slice.a);
    const Value stop = optional(slice.b);
    return get_slice(*this, object, start, stop, optional(slice.c));
  }
  return get_item(*this, object, evaluate(*expr.b, frame));
}

void Interpreter::evaluate_arguments(const Arguments& arguments, Frame& frame, Args& out) {
  for (const ExprPtr& argument : arguments.positional) out.positional.push_back(evaluate(*argument, frame));
  for (const auto& [name, argument] : arguments.named) out.named.emplace_back(name, evaluate(*argument, frame));
  if (arguments.star) {
    for (Value& value : to_values(*this, evaluate(*arguments.star, frame))) out.positional.push_back(std::move(value));
  }
  if (!arguments.double_star) return;
  const Value more = evaluate(*arguments.double_star, frame);
  refuse_undefined(more);
  if (!more.is(Type::Dict)) raise("argument after ** must be a mapping, not ", type_name(more));
  for (const auto& [key, value] : more.as<DictData>().entries) {
    if (!key.is_string()) raise("keywords must be strings");
    for (const auto& [name, given] : out.named) {
      spend(1);
      if (same_text(*this, name, key.text())) raise("got multiple values for keyword argument ", quoted(name));
    }
    touch(key.text().size());
    out.named.emplace_back(key.text(), value);
  }
}

Value Interpreter::evaluate_call(const Expr& expr, Frame& frame) {
  const Value callee = evaluate(*expr.a, frame);
  Args args;
  evaluate_arguments(expr.arguments, frame, args);
  return call(callee, args);
}

Value Interpreter::call(const Value& callee, Args& args) {
  switch (callee.type()) {
    case Type::Function: {
      const auto& function = callee.as<FunctionData>();
      return function.call(*this, function.self, args);
    }
    case Type::Macro: return call_macro(callee.as<MacroData>(), args);
    case Type::Loop: {
      const auto& loop = callee.as<LoopData>();
      const auto [iterable] = bind<1>("loop", args, {"iterable"}, 1);
      if (loop.recurse == nullptr) {
        raise("The loop must have the 'recursive' marker to be called recursively.");
      }
      const Nested nested(*this);
      return string(run_recursive(*static_cast<const Stmt*>(loop.recurse), *static_cast<Frame*>(loop.frame), iterable,
                                  loop.depth0 + 1));
    }
    case Type::Joiner: {
      bind<0>("joiner", args, {}, 0);
      auto& joiner = callee.as<JoinerData>();
      if (joiner.used) return joiner.separator;
      joiner.used = true;
      return string("");
    }
    default: refuse_undefined(callee); raise("'", type_name(callee), "' object is not callable");
  }
}

Value Interpreter::evaluate_builtin(const Expr& expr, Frame& frame, const Value* input) {
  const bool filter = expr.kind == ExprKind::Filter;
  Args args;
  // Inside a filter block, the chain of filters starts with the block's text.
  if (expr.a) {
    args.positional.push_back(input && expr.a->kind == ExprKind::Filter ? evaluate_builtin(*expr.a, frame, input)
                                                                        : evaluate(*expr.a, frame));
  } else if (input != nullptr) {
    args.positional.push_back(*input);
  }
  if (expr.builtin == nullptr) raise("No ", filter ? "filter" : "test", " named ", quoted(expr.name), " found.");
  evaluate_arguments(expr.arguments, frame, args);
  return expr.builtin->call(*this, args);
}

Value Interpreter::call_filter(const std::string& name, Args& args) {
  const Nested nested(*this);
  const Builtin* filter = find_filter(name);
  if (filter == nullptr) raise("No filter named ", quoted(name), ".");
  return filter->call(*this, args);
}

Value Interpreter::call_test(const std::string& name, Args& args) {
  const Nested nested(*this);
  const Builtin* test = find_test(name);
  if (test == nullptr) raise("No test named ", quoted(name), ".");
  return test->call(*this, args);
}

Value Interpreter::evaluate_compare(const Expr& expr, Frame& frame) {
  Value left = evaluate(*expr.a, frame);
  for (const auto& [op, operand] : expr.comparisons) {
    Value right = evaluate(*operand, frame);
    if (!compare(*this, op, left, right)) return false;
    left = std::move(right);
  }
  return true;
}

Value Interpreter::evaluate_concat(const Expr& expr, Frame& frame) {
  Values items;  // all are evaluated before the first is converted to text, as in Python
  items.reserve(expr.items.size());
  for (const ExprPtr& item : expr.items) items.push_back(evaluate(*item, frame));
  std::string out;
  for (const Value& item : items) {
    append_text(*this, item, out);
    check_text(out.size());
  }
  return string(std::move(out));
}

Value Interpreter::evaluate_literal(const Expr& expr, Frame& frame) {
  if (expr.kind == ExprKind::Dict) {
    const Value out = dict();
    for (const auto& [key, value] : expr.pairs) {
      const Value name = evaluate(*key, frame);
      dict_set(*this, out.as<DictData>(), name, evaluate(*value, frame));
    }
    return out;
  }
  Values items;
  items.reserve(expr.items.size());
  for (const ExprPtr& item : expr.items) items.push_back(evaluate(*item, frame));
  return expr.kind == ExprKind::List ? list(std::move(items)) : tuple(std::move(items));
}

}  // namespace easydel::jinja

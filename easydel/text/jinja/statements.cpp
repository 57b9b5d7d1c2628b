#include "easydel/text/jinja/interpreter.h"
#include "easydel/text/jinja/operators.h"
#include "easydel/text/jinja/printing.h"
#include "easydel/text/jinja/redirected.h"

namespace easydel::jinja {

// The items of a loop that pass its `if`.
struct LoopFilter : GeneratorData {
  LoopFilter(Interpreter& in, const Stmt& stmt, Frame& frame, GeneratorData& items)
      : in(in), stmt(stmt), frame(frame), items(items) {}
  bool next(Value& out) override {
    const Nested nested(in);
    for (Value item; items.next(item);) {
      if (!entered) in.reset(frame);
      entered = true;
      in.assign(*stmt.test_target, item, frame, false);
      if (!truth(in, in.evaluate(*stmt.test, frame))) continue;
      out = std::move(item);
      return true;
    }
    return false;
  }
  Interpreter& in;
  const Stmt& stmt;
  Frame& frame;
  GeneratorData& items;
  bool entered = false;
};

std::string Interpreter::run() {
  Frame& root = enter(parsed_.frame, nullptr);
  reset(root);
  execute(parsed_.body, root);
  return std::move(output_);
}

void Interpreter::write(std::string_view text) {
  if (sink_->size() + text.size() > static_cast<std::size_t>(limits().output)) {
    raise("the output is longer than ", limits().output, " bytes (a limit of this engine)");
  }
  touch(text.size());
  sink_->append(text);
}

Interpreter::Flow Interpreter::execute(const Body& body, Frame& frame) {
  for (const Stmt& stmt : body) {
    const Flow flow = execute(stmt, frame);
    if (flow != Flow::Normal) return flow;
  }
  return Flow::Normal;
}

Interpreter::Flow Interpreter::execute(const Stmt& stmt, Frame& frame) {
  spend(1);
  if (stmt.kind == StmtKind::Text) {
    write(stmt.name);
    return Flow::Normal;
  }
  const Nested nested(*this);
  line_ = stmt.line;
  switch (stmt.kind) {
    case StmtKind::Print: execute_print(stmt, frame); break;
    case StmtKind::If: return execute_if(stmt, frame);
    case StmtKind::For: return execute_for(stmt, frame);
    case StmtKind::Set: assign(*stmt.target, evaluate(*stmt.value, frame), frame, stmt.toplevel); break;
    case StmtKind::SetBlock:
    case StmtKind::FilterBlock:
    case StmtKind::Scope:
    case StmtKind::Block: return execute_in_frame(stmt, frame);
    case StmtKind::With: return execute_with(stmt, frame);
    case StmtKind::Macro: {
      const Value macro = make_macro(stmt, frame);
      slot(frame, stmt.name_ref) = macro;
      if (stmt.toplevel) exported_[stmt.name] = macro;
      break;
    }
    case StmtKind::CallBlock: execute_call_block(stmt, frame); break;
    case StmtKind::Generation: execute_generation(stmt, frame); break;
    case StmtKind::Break: return Flow::Break;
    case StmtKind::Continue: return Flow::Continue;
    case StmtKind::Unsupported:
      raise("no loader for this environment specified: '", stmt.name, "' needs other templates");
    case StmtKind::Text: break;
  }
  return Flow::Normal;
}

void Interpreter::execute_print(const Stmt& stmt, Frame& frame) {
  for (const ExprPtr& item : stmt.items) {
    const Value value = evaluate(*item, frame);
    if (value.is_string()) {
      write(value.text());
    } else {
      write(to_text(*this, value));
    }
  }
}

Interpreter::Flow Interpreter::execute_if(const Stmt& stmt, Frame& frame) {
  for (const Branch& branch : stmt.branches) {
    if (truth(*this, evaluate(*branch.test, frame))) return execute(branch.body, frame);
  }
  return execute(stmt.otherwise, frame);
}

Interpreter::Flow Interpreter::execute_for(const Stmt& stmt, Frame& frame) {
  const Value iterable = evaluate(*stmt.value, frame);
  if (!stmt.recursive) return run_loop(stmt, frame, iterable, 0);
  write(run_recursive(stmt, frame, iterable, 0));
  return Flow::Normal;
}

std::string Interpreter::run_recursive(const Stmt& stmt, Frame& outer, const Value& iterable, int64_t depth) {
  std::string out;
  const Redirected redirected(sink_, out);
  run_loop(stmt, outer, iterable, depth);
  return out;
}

Interpreter::Flow Interpreter::run_loop(const Stmt& stmt, Frame& outer, const Value& iterable, int64_t depth) {
  GeneratorData* items = iterate(*this, iterable);
  if (stmt.test) {
    items = make<LoopFilter>(*this, stmt, enter(stmt.test_frame, &outer), *items);
  }
  LoopData* loop = nullptr;
  if (stmt.uses_loop) {
    loop = make<LoopData>();
    loop->iterable = stmt.test ? Value(Type::Generator, items) : iterable;
    loop->iterator = items;
    loop->depth0 = depth;
    loop->recurse = stmt.recursive ? &stmt : nullptr;
    loop->frame = &outer;
  }
  Frame& frame = enter(stmt.frame, &outer);
  bool complete = false;  // whether the body ran to its end; otherwise `else` runs, as in jinja2
  while (true) {
    Value item;
    if (loop == nullptr) {
      if (!items->next(item)) break;
    } else if (!loop->after.is_missing()) {
      item = std::move(loop->after);
      loop->after = Value();
    } else if (!loop->iterator->next(item)) {
      break;
    }
    spend(1);
    if (loop != nullptr) {
      ++loop->index0;
      loop->before = loop->current;
      loop->current = item;
      slot(frame, stmt.loop_ref) = Value(Type::Loop, loop);
    }
    assign(*stmt.target, item, frame, false);
    reset(frame);
    const Flow flow = execute(stmt.body, frame);
    if (flow == Flow::Break) break;
    if (flow == Flow::Normal) complete = true;
  }
  leave(frame);
  if (complete || stmt.otherwise.empty()) return Flow::Normal;
  Frame& otherwise = enter(stmt.else_frame, &outer);
  reset(otherwise);
  const Flow flow = execute(stmt.otherwise, otherwise);
  leave(otherwise);
  return flow;
}

// Blocks whose body has its own frame and, except for `autoescape`, its own text.
Interpreter::Flow Interpreter::execute_in_frame(const Stmt& stmt, Frame& outer) {
  Frame& frame = enter(stmt.frame, stmt.kind == StmtKind::Block ? nullptr : &outer);
  reset(frame);
  Flow flow = Flow::Normal;
  if (stmt.kind == StmtKind::Scope || stmt.kind == StmtKind::Block) {
    if (stmt.value && truth(*this, evaluate(*stmt.value, frame))) {
      raise("autoescape is not supported; text is only escaped by the filter 'e'");
    }
    flow = execute(stmt.body, frame);
  } else {
    std::string text;
    {
      const Redirected redirected(sink_, text);
      flow = execute(stmt.body, frame);
    }
    if (flow == Flow::Normal) {
      Value value = string(std::move(text));
      if (stmt.value) value = evaluate_builtin(*stmt.value, frame, &value);
      if (stmt.kind == StmtKind::SetBlock) {
        assign(*stmt.target, value, outer, stmt.toplevel);
      } else {
        write(to_text(*this, value));
      }
    }
  }
  leave(frame);
  return flow;
}

Interpreter::Flow Interpreter::execute_with(const Stmt& stmt, Frame& outer) {
  Frame& frame = enter(stmt.frame, &outer);
  reset(frame);
  for (std::size_t i = 0; i < stmt.items.size(); ++i) {
    assign(*stmt.items[i], evaluate(*stmt.values[i], outer), frame, false);
  }
  const Flow flow = execute(stmt.body, frame);
  leave(frame);
  return flow;
}

void Interpreter::assign(const Expr& target, const Value& value, Frame& frame, bool toplevel) {
  if (target.kind == ExprKind::Name) {
    slot(frame, target.ref) = value;
    if (toplevel) exported_[target.name] = value;
    return;
  }
  if (target.kind == ExprKind::NamespaceTarget) {
    const Value& space = slot(frame, target.a->ref);
    if (!space.is(Type::Namespace)) raise("cannot assign attribute on non-namespace object");
    set_namespace(*this, space.as<NamespaceData>(), target.name, value);
    return;
  }
  if (!is_iterable(value)) raise("cannot unpack non-iterable ", type_name(value), " object");
  const Values items = to_values(*this, value);
  if (items.size() > target.items.size()) raise("too many values to unpack (expected ", target.items.size(), ")");
  if (items.size() < target.items.size()) {
    raise("not enough values to unpack (expected ", target.items.size(), ", got ", items.size(), ")");
  }
  for (std::size_t i = 0; i < items.size(); ++i) assign(*target.items[i], items[i], frame, toplevel);
}

}  // namespace easydel::jinja

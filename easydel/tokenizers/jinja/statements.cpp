#include "easydel/tokenizers/jinja/interpreter.h"
#include "easydel/tokenizers/jinja/operators.h"
#include "easydel/tokenizers/jinja/printing.h"
#include "easydel/tokenizers/jinja/unicode.h"

namespace easydel::jinja {

namespace {

// Sends what is written to another place while it lives.
class Redirected {
 public:
  Redirected(std::string*& sink, std::string& to) : sink_(sink), before_(sink) { sink = &to; }
  ~Redirected() { sink_ = before_; }
  Redirected(const Redirected&) = delete;
  Redirected& operator=(const Redirected&) = delete;

 private:
  std::string*& sink_;
  std::string* before_;
};

}  // namespace

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
  spend(text.size() / 64);
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
  bool complete = false;  // whether the body ran to its end; `else` follows otherwise, as in jinja2
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

// Blocks whose body has a frame of its own and, but for `autoescape`, a text of its own.
Interpreter::Flow Interpreter::execute_in_frame(const Stmt& stmt, Frame& outer) {
  Frame& frame = enter(stmt.frame, stmt.kind == StmtKind::Block ? nullptr : &outer);
  reset(frame);
  Flow flow = Flow::Normal;
  if (stmt.kind == StmtKind::Scope || stmt.kind == StmtKind::Block) {
    if (stmt.value && truth(*this, evaluate(*stmt.value, frame))) {
      raise("autoescape is not supported; text is never escaped here unless the filter 'e' does it");
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

void Interpreter::execute_call_block(const Stmt& stmt, Frame& frame) {
  Args args;
  const Value callee = evaluate(*stmt.value->a, frame);
  evaluate_arguments(stmt.value->arguments, frame, args);
  for (const auto& [name, value] : args.named) {
    if (name == "caller") raise("got multiple values for keyword argument 'caller'");
  }
  args.named.emplace_back("caller", make_macro(stmt, frame));
  write(to_text(*this, call(callee, args)));
}

void Interpreter::execute_generation(const Stmt& stmt, Frame& frame) {
  Values arguments;
  if (stmt.uses_caller) arguments.push_back(undefined("No caller defined"));
  if (stmt.uses_kwargs) arguments.push_back(dict());
  if (stmt.uses_varargs) arguments.push_back(tuple({}));
  const std::string text = invoke(stmt, frame, std::move(arguments));
  // Positions count what has reached the output, so those inside of macros are off; so they are in transformers.
  counted_characters_ += count_characters(std::string_view(output_).substr(counted_bytes_));
  counted_bytes_ = output_.size();
  generated_.push_back({counted_characters_, counted_characters_ + count_characters(text)});
  write(text);
}

Value Interpreter::make_macro(const Stmt& stmt, Frame& frame) {
  auto* macro = make<MacroData>();
  macro->stmt = &stmt;
  macro->frame = &frame;
  return Value(Type::Macro, macro);
}

std::string macro_name(const Value& macro) {
  const Stmt& stmt = *macro.as<MacroData>().stmt;
  return stmt.kind == StmtKind::Macro ? quoted(stmt.name) : "anonymous";
}

Value Interpreter::call_macro(const MacroData& macro, Args& args) {
  const Stmt& stmt = *macro.stmt;
  const std::string name = stmt.kind == StmtKind::Macro ? quoted(stmt.name) : "None";
  const std::size_t count = stmt.parameters.size();
  Values arguments(args.positional.begin(),
                   args.positional.begin() + static_cast<std::ptrdiff_t>(std::min(args.positional.size(), count)));
  const auto pop = [&](const std::string& wanted) {
    for (auto entry = args.named.begin(); entry != args.named.end(); ++entry) {
      if (entry->first != wanted) continue;
      Value value = std::move(entry->second);
      args.named.erase(entry);
      return value;
    }
    return Value();
  };
  bool found_caller = false;
  if (arguments.size() == count) {
    for (const std::string& parameter : stmt.parameters) found_caller = found_caller || parameter == "caller";
  }
  while (arguments.size() < count) {
    const std::string& parameter = stmt.parameters[arguments.size()];
    found_caller = found_caller || parameter == "caller";
    arguments.push_back(pop(parameter));
  }
  if (stmt.uses_caller && !found_caller) {
    const Value caller = pop("caller");
    arguments.push_back(caller.is_missing() || caller.is_none() ? undefined("No caller defined") : caller);
  }
  if (stmt.uses_kwargs) {
    const Value rest = dict();
    for (const auto& [key, value] : args.named) dict_set(*this, rest.as<DictData>(), string(key), value);
    arguments.push_back(rest);
  } else if (!args.named.empty()) {
    for (const auto& [key, value] : args.named) {
      if (key != "caller") continue;
      raise("macro ", name, " was invoked with two values for the special caller argument. This is most likely a bug.");
    }
    raise("macro ", name, " takes no keyword argument ", quoted(args.named[0].first));
  }
  if (stmt.uses_varargs) {
    Values rest;
    for (std::size_t i = count; i < args.positional.size(); ++i) rest.push_back(args.positional[i]);
    arguments.push_back(tuple(std::move(rest)));
  } else if (args.positional.size() > count) {
    raise("macro ", name, " takes not more than ", count, " argument(s)");
  }
  return string(invoke(stmt, *macro.frame, std::move(arguments)));
}

// Parameters first, then the caller, keyword arguments and further arguments, of those that the body uses.
std::string Interpreter::invoke(const Stmt& stmt, Frame& defined_in, Values arguments) {
  const Nested nested(*this);
  const int line = line_;
  std::string out;
  const Redirected redirected(sink_, out);
  Frame& frame = enter(stmt.frame, &defined_in);
  reset(frame);
  const std::size_t count = stmt.parameters.size();
  std::size_t next = count;
  for (std::size_t i = 0; i < count; ++i) slot(frame, stmt.parameter_refs[i]) = arguments[i];
  bool named_caller = false;
  for (const std::string& parameter : stmt.parameters) named_caller = named_caller || parameter == "caller";
  if (stmt.uses_caller && !named_caller) slot(frame, stmt.caller_ref) = arguments[next++];
  if (stmt.uses_kwargs) slot(frame, stmt.kwargs_ref) = arguments[next++];
  if (stmt.uses_varargs) slot(frame, stmt.varargs_ref) = arguments[next++];
  const std::size_t required = count - stmt.defaults.size();
  for (std::size_t i = 0; i < count; ++i) {
    if (!arguments[i].is_missing()) continue;
    slot(frame, stmt.parameter_refs[i]) =
        i < required ? undefined(concat("parameter ", quoted(stmt.parameters[i]), " was not provided"))
                     : evaluate(*stmt.defaults[i - required], frame);
  }
  execute(stmt.body, frame);
  leave(frame);
  line_ = line;
  return out;
}

Frame& Interpreter::enter(const FrameLayout& layout, Frame* parent) {
  Frame* frame = nullptr;
  if (!layout.captured && !free_frames_.empty()) {
    frame = free_frames_.back();
    free_frames_.pop_back();
  } else {
    take(sizeof(Frame) + layout.names.size() * sizeof(Value));
    frames_.push_back(std::make_unique<Frame>());
    frame = frames_.back().get();
  }
  frame->parent = parent;
  frame->layout = &layout;
  frame->slots.assign(layout.names.size(), Value());
  return *frame;
}

void Interpreter::reset(Frame& frame) {
  for (std::size_t i = 0; i < frame.slots.size(); ++i) {
    const Load& load = frame.layout->loads[i];
    switch (load.kind) {
      case Load::Parameter: break;
      case Load::Resolve: frame.slots[i] = resolve(frame.layout->names[i]); break;
      case Load::Alias: frame.slots[i] = Value(slot(frame, load.outer)); break;
      case Load::Unset: frame.slots[i] = Value(); break;
    }
  }
}

void Interpreter::leave(Frame& frame) {
  if (!frame.layout->captured) free_frames_.push_back(&frame);
}

Value& Interpreter::slot(Frame& frame, Ref ref) {
  Frame* holder = &frame;
  for (int up = 0; up < ref.up; ++up) holder = holder->parent;
  return holder->slots[ref.slot];
}

Value Interpreter::resolve(const std::string& name) {
  for (const auto* scope : {&exported_, &variables_, &globals_}) {
    if (const auto found = scope->find(name); found != scope->end()) return found->second;
  }
  const NamedMethod* global = find_global(name);
  if (global == nullptr) return {};
  return globals_[name] = make_function(*this, *global, Value());
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
    set_namespace(space.as<NamespaceData>(), target.name, value);
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

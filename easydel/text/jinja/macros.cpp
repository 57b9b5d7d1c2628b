// Macros, call blocks and generation blocks, and the frames that all statements run in.
#include "easydel/text/jinja/builtins/unicode.h"
#include "easydel/text/jinja/interpreter.h"
#include "easydel/text/jinja/operators.h"
#include "easydel/text/jinja/printing.h"
#include "easydel/text/jinja/redirected.h"

namespace easydel::jinja {

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
  // Positions count what has reached the output, so those inside macros are off, as in transformers.
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
  const auto name = [&] { return stmt.kind == StmtKind::Macro ? quoted(stmt.name) : "None"; };  // for errors
  const std::size_t count = stmt.parameters.size();
  Values arguments(args.positional.begin(),
                   args.positional.begin() + static_cast<std::ptrdiff_t>(std::min(args.positional.size(), count)));
  const auto pop = [&](const std::string& wanted) {
    spend(args.named.size() + 1);
    for (auto entry = args.named.begin(); entry != args.named.end(); ++entry) {
      if (!same_text(*this, entry->first, wanted)) continue;
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
      raise("macro ", name(),
            " was invoked with two values for the special caller argument. This is most likely a bug.");
    }
    raise("macro ", name(), " takes no keyword argument ", quoted(args.named[0].first));
  }
  if (stmt.uses_varargs) {
    Values rest;
    for (std::size_t i = count; i < args.positional.size(); ++i) rest.push_back(args.positional[i]);
    arguments.push_back(tuple(std::move(rest)));
  } else if (args.positional.size() > count) {
    raise("macro ", name(), " takes not more than ", count, " argument(s)");
  }
  return string(invoke(stmt, *macro.frame, std::move(arguments)));
}

// Parameters first, then the caller, keyword arguments and extra arguments, of those that the body uses.
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
  spend(frame.slots.size());
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
  touch(name.size());
  for (const auto* scope : {&exported_, &variables_, &globals_}) {
    if (const auto found = scope->find(name); found != scope->end()) return found->second;
  }
  const NamedMethod* global = find_global(name);
  if (global == nullptr) return {};
  return globals_[name] = make_function(*this, *global, Value());
}

}  // namespace easydel::jinja

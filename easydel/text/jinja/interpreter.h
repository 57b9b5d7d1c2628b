// Runs a parsed template.
#pragma once

#include <cstdint>

#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "easydel/text/jinja/builtins/builtins.h"
#include "easydel/text/jinja/runtime.h"
#include "easydel/text/jinja/syntax/parser.h"

namespace easydel::jinja {

struct Frame : Object {
  Frame* parent = nullptr;
  const FrameLayout* layout = nullptr;
  Values slots;
};

struct MacroData : Object {
  const Stmt* stmt = nullptr;
  Frame* frame = nullptr;  // where it was defined
};

void set_namespace(Runtime& runtime, NamespaceData& space, const std::string& name, const Value& value);

class Interpreter : public Runtime {
 public:
  Interpreter(const ParsedTemplate& parsed, const Limits& limits, const std::tm& now)
      : Runtime(limits), parsed_(parsed), now_(now) {}

  void set_variable(const std::string& name, Value value) { variables_[name] = std::move(value); }
  std::string run();
  int line() const { return line_; }  // being executed, for errors
  const std::tm& now() const { return now_; }

  struct Span {
    std::size_t begin, end;  // in characters of the text
  };
  const std::vector<Span>& generated() const { return generated_; }

  Value call(const Value& callee, Args& args);
  Value call_filter(const std::string& name, Args& args);
  Value call_test(const std::string& name, Args& args);

 private:
  friend struct LoopFilter;
  enum class Flow { Normal, Break, Continue };

  // Statements.
  Flow execute(const Body& body, Frame& frame);
  Flow execute(const Stmt& stmt, Frame& frame);
  void execute_print(const Stmt& stmt, Frame& frame);
  Flow execute_if(const Stmt& stmt, Frame& frame);
  Flow execute_for(const Stmt& stmt, Frame& frame);
  Flow run_loop(const Stmt& stmt, Frame& outer, const Value& iterable, int64_t depth);
  std::string run_recursive(const Stmt& stmt, Frame& outer, const Value& iterable, int64_t depth);
  Flow execute_in_frame(const Stmt& stmt, Frame& frame);
  Flow execute_with(const Stmt& stmt, Frame& frame);
  void execute_call_block(const Stmt& stmt, Frame& frame);
  void execute_generation(const Stmt& stmt, Frame& frame);
  Value make_macro(const Stmt& stmt, Frame& frame);
  Value call_macro(const MacroData& macro, Args& args);
  std::string invoke(const Stmt& stmt, Frame& defined_in, Values arguments);
  void write(std::string_view text);
  void assign(const Expr& target, const Value& value, Frame& frame, bool toplevel);

  // Expressions.
  Value evaluate(const Expr& expr, Frame& frame);
  Value evaluate_name(const Expr& expr, Frame& frame);
  Value evaluate_item(const Expr& expr, Frame& frame);
  Value evaluate_call(const Expr& expr, Frame& frame);
  Value evaluate_builtin(const Expr& expr, Frame& frame, const Value* input);
  Value evaluate_compare(const Expr& expr, Frame& frame);
  Value evaluate_concat(const Expr& expr, Frame& frame);
  Value evaluate_literal(const Expr& expr, Frame& frame);
  void evaluate_arguments(const Arguments& arguments, Frame& frame, Args& out);

  // Frames.
  Frame& enter(const FrameLayout& layout, Frame* parent);
  void reset(Frame& frame);  // initializes every slot except the parameters
  void leave(Frame& frame);
  static Value& slot(Frame& frame, Ref ref);
  Value resolve(const std::string& name);

  const ParsedTemplate& parsed_;
  std::tm now_;
  std::unordered_map<std::string, Value> variables_;  // what the caller passed
  std::unordered_map<std::string, Value> exported_;   // what the template set at top level
  std::unordered_map<std::string, Value> globals_;
  std::vector<std::unique_ptr<Frame>> frames_;
  std::vector<Frame*> free_frames_;
  std::string output_;
  std::string* sink_ = &output_;
  std::size_t counted_bytes_ = 0, counted_characters_ = 0;  // of the output
  std::vector<Span> generated_;
  int line_ = 1;
};

}  // namespace easydel::jinja

#include "easydel/text/jinja/scopes.h"

#include <algorithm>
#include <set>

#include "easydel/core/error.h"

#include "easydel/text/jinja/builtins/builtins.h"
#include "easydel/text/jinja/printing.h"
#include "easydel/text/jinja/syntax/lexer.h"
#include "easydel/text/jinja/syntax/symbols.h"

namespace easydel::jinja {
namespace {

ExprPtr copy_target(const Expr& target) {
  auto copy = std::make_unique<Expr>();
  copy->kind = target.kind;
  copy->line = target.line;
  copy->name = target.name;
  for (const ExprPtr& item : target.items) copy->items.push_back(copy_target(*item));
  return copy;
}

// The context in which statements are resolved: a frame, and what surrounds them in the Python that jinja2 generates.
struct Place {
  const Symbols* symbols;
  FrameLayout* layout;
  const Place* parent = nullptr;
  bool toplevel = false;
  bool soft = false;   // inside an `if`: unknown filters are reported at run time
  bool loops = false;  // inside a loop, so `break` is valid

  Place softly() const {
    Place place = *this;
    place.soft = true;
    return place;
  }
};

class Resolver {
 public:
  void run(ParsedTemplate& parsed) {
    int64_t work = 0;
    Symbols symbols(nullptr, &work);
    symbols.visit(parsed.body);
    Place root{.symbols = &symbols, .layout = &parsed.frame, .toplevel = true};
    lay_out(symbols, parsed.frame);
    resolve(parsed.body, root);
  }

 private:
  // The names are sorted, because they come from a map.
  static void lay_out(const Symbols& symbols, FrameLayout& layout) {
    for (const auto& [name, load] : symbols.loads()) {
      const int slot = static_cast<int>(layout.names.size());
      layout.names.push_back(name);
      layout.loads.push_back({load.kind, {symbols.level() - load.level, slot}});
    }
  }

  static int slot_of(const FrameLayout& layout, const std::string& name) {
    const auto found = std::lower_bound(layout.names.begin(), layout.names.end(), name);
    if (found == layout.names.end() || *found != name) return -1;
    return static_cast<int>(found - layout.names.begin());
  }

  static Ref ref_of(const Place& place, const std::string& name) {
    int up = 0;
    for (const Place* at = &place; at != nullptr; at = at->parent, ++up) {
      if (const int slot = slot_of(*at->layout, name); slot >= 0) return {up, slot};
    }
    raise_syntax(0, "the name " + quoted(name) + " belongs to no frame");
  }

  // Lays out a frame nested in `outer`; the slots of aliases are looked up in the enclosing frames.
  static Place enter(const Symbols& symbols, FrameLayout& layout, const Place* outer, const Place& flags) {
    lay_out(symbols, layout);
    Place place{.symbols = &symbols, .layout = &layout, .parent = outer, .loops = flags.loops};
    for (std::size_t i = 0; i < layout.names.size(); ++i) {
      Load& load = layout.loads[i];
      if (load.kind != Load::Alias || outer == nullptr) continue;
      const int levels = load.outer.up;
      const Place* holder = outer;
      for (int up = 1; up < levels && holder->parent != nullptr; ++up) holder = holder->parent;
      load.outer = {levels, slot_of(*holder->layout, layout.names[i])};
    }
    return place;
  }

  static void capture(const Place* place) {
    for (; place != nullptr; place = place->parent) place->layout->captured = true;
  }

  void resolve(Body& body, const Place& place) {
    for (Stmt& stmt : body) resolve(stmt, place);
  }

  void resolve(Stmt& stmt, const Place& place) {
    switch (stmt.kind) {
      case StmtKind::Text:
      case StmtKind::Unsupported: break;
      case StmtKind::Print:
        for (ExprPtr& item : stmt.items) resolve(*item, place);
        break;
      case StmtKind::If: {
        const Place soft = place.softly();
        for (Branch& branch : stmt.branches) {
          resolve(*branch.test, soft);
          resolve(branch.body, soft);
        }
        resolve(stmt.otherwise, soft);
        break;
      }
      case StmtKind::For: resolve_for(stmt, place); break;
      case StmtKind::Set:
        stmt.toplevel = place.toplevel;
        resolve(*stmt.target, place);
        resolve(*stmt.value, place);
        break;
      case StmtKind::SetBlock:
      case StmtKind::FilterBlock:
      case StmtKind::Scope: resolve_block(stmt, place); break;
      case StmtKind::With: resolve_with(stmt, place); break;
      case StmtKind::Macro:
      case StmtKind::CallBlock:
      case StmtKind::Generation: resolve_macro(stmt, place); break;
      case StmtKind::Block: {
        if (!blocks_.insert(stmt.name).second) {
          raise_syntax(stmt.line, "block " + quoted(stmt.name) + " defined twice");
        }
        int64_t work = 0;
        Symbols symbols(nullptr, &work);
        symbols.visit(stmt.body);
        resolve(stmt.body, enter(symbols, stmt.frame, nullptr, {}));
        break;
      }
      case StmtKind::Break:
      case StmtKind::Continue:
        if (!place.loops) {
          raise_syntax(stmt.line,
                       stmt.kind == StmtKind::Break ? "'break' outside loop" : "'continue' not properly in loop");
        }
        break;
    }
  }

  void resolve_for(Stmt& stmt, const Place& place) {
    resolve(*stmt.value, place);
    const auto refuse = [&](const Expr* name, const std::string& text, NameUse use) {
      if (use == NameUse::Store && text == "loop" && name) {
        raise_syntax(name->line, "Can't assign to special loop variable in for-loop target");
      }
    };
    walk_target(*stmt.target, refuse);
    walk_names(stmt.body, refuse);
    walk_names(stmt.otherwise, refuse);
    if (stmt.recursive) capture(&place);

    Symbols body(place.symbols);
    stmt.uses_loop = stmt.recursive || find_undeclared(stmt.body, {"loop"}).contains("loop");
    if (stmt.uses_loop) body.declare_parameter("loop");
    body.visit_target(*stmt.target, true);
    body.visit(stmt.body);
    Place inside = enter(body, stmt.frame, &place, {.symbols = nullptr, .layout = nullptr, .loops = true});
    if (stmt.test) {
      Symbols symbols(place.symbols);
      symbols.visit_target(*stmt.target, true);
      symbols.visit(*stmt.test);
      const Place test = enter(symbols, stmt.test_frame, &place, place);
      stmt.test_target = copy_target(*stmt.target);
      resolve(*stmt.test_target, test);
      resolve(*stmt.test, test);
      // The filter runs during the loop, so its frame lives as long.
      stmt.test_frame.captured = true;
      capture(&place);
    }
    resolve(*stmt.target, inside);
    if (stmt.uses_loop) stmt.loop_ref = ref_of(inside, "loop");
    resolve(stmt.body, inside);
    if (!stmt.otherwise.empty()) {
      Symbols symbols(place.symbols);
      symbols.visit(stmt.otherwise);
      Place otherwise = enter(symbols, stmt.else_frame, &place, place);
      if (stmt.recursive) otherwise.loops = false;
      resolve(stmt.otherwise, otherwise);
    }
  }

  void resolve_block(Stmt& stmt, const Place& place) {
    Symbols symbols(place.symbols);
    symbols.visit(stmt.body);
    if (stmt.value) symbols.visit(*stmt.value);
    const Place inside = enter(symbols, stmt.frame, &place, place);
    resolve(stmt.body, inside);
    if (stmt.value) resolve(*stmt.value, inside);
    if (stmt.target) {
      stmt.toplevel = place.toplevel;
      resolve(*stmt.target, place);
    }
  }

  void resolve_with(Stmt& stmt, const Place& place) {
    for (ExprPtr& value : stmt.values) resolve(*value, place);
    Symbols symbols(place.symbols);
    for (const ExprPtr& target : stmt.items) symbols.visit_target(*target, true);
    symbols.visit(stmt.body);
    const Place inside = enter(symbols, stmt.frame, &place, place);
    for (ExprPtr& target : stmt.items) resolve(*target, inside);
    resolve(stmt.body, inside);
  }

  void resolve_macro(Stmt& stmt, const Place& place) {
    if (stmt.kind != StmtKind::Generation) capture(&place);
    if (stmt.kind == StmtKind::CallBlock) resolve(*stmt.value, place);
    if (stmt.kind == StmtKind::Macro) {
      stmt.toplevel = place.toplevel;
      stmt.name_ref = ref_of(place, stmt.name);
    }
    const std::set<std::string> named(stmt.parameters.begin(), stmt.parameters.end());
    const auto used = find_undeclared(stmt.body, {"caller", "kwargs", "varargs"});
    stmt.uses_caller = used.contains("caller");
    stmt.uses_kwargs = used.contains("kwargs") && !named.contains("kwargs");
    stmt.uses_varargs = used.contains("varargs") && !named.contains("varargs");
    if (stmt.uses_caller && named.contains("caller")) {
      const std::size_t required = stmt.parameters.size() - stmt.defaults.size();
      for (std::size_t i = 0; i < required; ++i) {
        if (stmt.parameters[i] != "caller") continue;
        raise_syntax(stmt.line,
                     "When defining macros or call blocks the special \"caller\" argument must be omitted or be given "
                     "a default.");
      }
    }
    Symbols symbols(place.symbols);
    for (const std::string& name : stmt.parameters) symbols.declare_parameter(name);
    if (stmt.uses_caller) symbols.declare_parameter("caller");
    if (stmt.uses_kwargs) symbols.declare_parameter("kwargs");
    if (stmt.uses_varargs) symbols.declare_parameter("varargs");
    for (const ExprPtr& value : stmt.defaults) symbols.visit(*value);
    symbols.visit(stmt.body);
    const Place inside = enter(symbols, stmt.frame, &place, {});
    for (const std::string& name : stmt.parameters) stmt.parameter_refs.push_back(ref_of(inside, name));
    if (stmt.uses_caller) stmt.caller_ref = ref_of(inside, "caller");
    if (stmt.uses_kwargs) stmt.kwargs_ref = ref_of(inside, "kwargs");
    if (stmt.uses_varargs) stmt.varargs_ref = ref_of(inside, "varargs");
    for (ExprPtr& value : stmt.defaults) resolve(*value, inside);
    resolve(stmt.body, inside);
  }

  void resolve(Expr& expr, const Place& place) {
    switch (expr.kind) {
      case ExprKind::Name: expr.ref = ref_of(place, expr.name); return;
      case ExprKind::Conditional: {
        const Place soft = place.softly();
        resolve(*expr.a, soft);
        resolve(*expr.b, soft);
        if (expr.c) resolve(*expr.c, soft);
        return;
      }
      case ExprKind::Filter:
      case ExprKind::Test: {
        const bool filter = expr.kind == ExprKind::Filter;
        expr.builtin = filter ? find_filter(expr.name) : find_test(expr.name);
        if (!expr.builtin && !place.soft) {
          raise_syntax(expr.line, concat("No ", filter ? "filter" : "test", " named ", quoted(expr.name), "."));
        }
        break;
      }
      default: break;
    }
    const auto inside = [&](ExprPtr& child) {
      if (child) resolve(*child, place);
    };
    inside(expr.a), inside(expr.b), inside(expr.c);
    for (ExprPtr& item : expr.items) inside(item);
    for (auto& [key, value] : expr.pairs) inside(key), inside(value);
    for (auto& [op, operand] : expr.comparisons) inside(operand);
    for (ExprPtr& argument : expr.arguments.positional) inside(argument);
    for (auto& [name, argument] : expr.arguments.named) inside(argument);
    inside(expr.arguments.star), inside(expr.arguments.double_star);
  }

  std::set<std::string> blocks_;
};

}  // namespace

void resolve_names(ParsedTemplate& parsed) { Resolver().run(parsed); }

}  // namespace easydel::jinja

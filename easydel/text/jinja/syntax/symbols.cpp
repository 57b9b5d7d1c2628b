#include "easydel/text/jinja/syntax/symbols.h"

#include "easydel/text/jinja/syntax/lexer.h"

namespace easydel::jinja {

int Symbols::find(const std::string& name) const {
  if (loads_.contains(name)) return level_;
  return parent_ ? parent_->find(name) : -1;
}

void Symbols::store(const std::string& name) {
  stores_.insert(name);
  if (loads_.contains(name)) return;
  const int outer = parent_ ? parent_->find(name) : -1;
  loads_[name] = outer >= 0 ? NameLoad{Load::Alias, outer} : NameLoad{Load::Unset, 0};
}

void Symbols::load(const std::string& name) {
  if (find(name) < 0) loads_[name] = {Load::Resolve, 0};
}

void Symbols::declare_parameter(const std::string& name) {
  stores_.insert(name);
  loads_[name] = {Load::Parameter, 0};
}

// A name set in only some branches keeps its outer value in the others.
void Symbols::merge_branches(const std::vector<Symbols>& branches) {
  std::set<std::string> stores;
  for (const Symbols& branch : branches) stores.insert(branch.stores_.begin(), branch.stores_.end());
  for (const std::string& name : stores_) stores.erase(name);
  for (const Symbols& branch : branches) {
    for (const auto& [name, load] : branch.loads_) loads_[name] = load;
    stores_.insert(branch.stores_.begin(), branch.stores_.end());
  }
  for (const std::string& name : stores) {
    const int outer = parent_ ? parent_->find(name) : -1;
    loads_[name] = outer >= 0 ? NameLoad{Load::Alias, outer} : NameLoad{Load::Resolve, 0};
  }
}

void Symbols::visit(const Body& body) {
  for (const Stmt& stmt : body) visit(stmt);
}

void Symbols::visit(const Stmt& stmt) {
  switch (stmt.kind) {
    case StmtKind::Print:
      for (const ExprPtr& item : stmt.items) visit(*item);
      break;
    case StmtKind::If: visit_if(stmt); break;
    case StmtKind::For: visit(*stmt.value); break;
    case StmtKind::Set:
      visit(*stmt.value);
      visit_target(*stmt.target, false);
      break;
    case StmtKind::SetBlock: visit_target(*stmt.target, false); break;
    case StmtKind::Macro: store(stmt.name); break;
    case StmtKind::CallBlock:
    case StmtKind::FilterBlock: visit(*stmt.value); break;
    case StmtKind::With:
      for (const ExprPtr& value : stmt.values) visit(*value);
      break;
    default: break;
  }
}

void Symbols::visit_if(const Stmt& stmt) {
  visit(*stmt.branches[0].test);
  spend(stmt.line);
  std::vector<Symbols> branches(3, *this);
  branches[0].visit(stmt.branches[0].body);
  for (std::size_t i = 1; i < stmt.branches.size(); ++i) branches[1].visit_elif(stmt.branches[i]);
  branches[2].visit(stmt.otherwise);
  merge_branches(branches);
}

// Each branch works on a copy, so many branches with many names would be slow.
void Symbols::spend(int line) {
  constexpr int64_t kMaxWork = 3'000'000;
  *work_ += static_cast<int64_t>(3 * loads_.size());
  if (*work_ > kMaxWork) raise_syntax(line, "too many branches and variables (a limit of this engine)");
}

void Symbols::visit_elif(const Branch& branch) {
  visit(*branch.test);
  spend(branch.test->line);
  std::vector<Symbols> branches(3, *this);
  branches[0].visit(branch.body);
  merge_branches(branches);
}

void Symbols::visit_target(const Expr& target, bool parameter) {
  if (target.kind == ExprKind::Tuple) {
    for (const ExprPtr& item : target.items) visit_target(*item, parameter);
  } else if (target.kind == ExprKind::NamespaceTarget) {
    load(target.a->name);
  } else if (parameter) {
    declare_parameter(target.name);
  } else {
    store(target.name);
  }
}

void Symbols::visit_arguments(const Arguments& arguments) {
  for (const ExprPtr& argument : arguments.positional) visit(*argument);
  for (const auto& [name, argument] : arguments.named) visit(*argument);
  if (arguments.star) visit(*arguments.star);
  if (arguments.double_star) visit(*arguments.double_star);
}

void Symbols::visit(const Expr& expr) {
  if (expr.kind == ExprKind::Name) load(expr.name);
  if (expr.a) visit(*expr.a);
  if (expr.b) visit(*expr.b);
  if (expr.c) visit(*expr.c);
  for (const ExprPtr& item : expr.items) visit(*item);
  for (const auto& [key, value] : expr.pairs) {
    visit(*key);
    visit(*value);
  }
  for (const auto& [op, operand] : expr.comparisons) visit(*operand);
  visit_arguments(expr.arguments);
}

namespace {

void walk(const Expr& expr, NameUse use, const SeeName& see) {
  if (expr.kind == ExprKind::NamespaceTarget) return;
  if (expr.kind == ExprKind::Name) see(&expr, expr.name, use);
  const auto inside = [&](const ExprPtr& child) {
    if (child) walk(*child, use, see);
  };
  inside(expr.a), inside(expr.b), inside(expr.c);
  for (const ExprPtr& item : expr.items) inside(item);
  for (const auto& [key, value] : expr.pairs) inside(key), inside(value);
  for (const auto& [op, operand] : expr.comparisons) inside(operand);
  for (const ExprPtr& argument : expr.arguments.positional) inside(argument);
  for (const auto& [name, argument] : expr.arguments.named) inside(argument);
  inside(expr.arguments.star), inside(expr.arguments.double_star);
}

void walk(const Stmt& stmt, const SeeName& see) {
  const auto read = [&](const ExprPtr& expr) {
    if (expr) walk(*expr, NameUse::Load, see);
  };
  if (stmt.kind == StmtKind::Block) return;
  if (stmt.kind == StmtKind::FilterBlock) {
    walk_names(stmt.body, see);
    read(stmt.value);
    return;
  }
  if (stmt.kind == StmtKind::CallBlock) read(stmt.value);
  if (stmt.target) walk(*stmt.target, NameUse::Store, see);
  if (stmt.kind != StmtKind::CallBlock) read(stmt.value);
  const bool targets = stmt.kind == StmtKind::With;
  for (const ExprPtr& item : stmt.items) walk(*item, targets ? NameUse::Store : NameUse::Load, see);
  for (const ExprPtr& value : stmt.values) read(value);
  for (const std::string& name : stmt.parameters) see(nullptr, name, NameUse::Store);
  for (const ExprPtr& value : stmt.defaults) read(value);
  for (const Branch& branch : stmt.branches) {
    read(branch.test);
    walk_names(branch.body, see);
  }
  walk_names(stmt.body, see);
  walk_names(stmt.otherwise, see);
  read(stmt.test);
}

}  // namespace

void walk_target(const Expr& target, const SeeName& see) { walk(target, NameUse::Store, see); }

void walk_names(const Body& body, const SeeName& see) {
  for (const Stmt& stmt : body) walk(stmt, see);
}

std::set<std::string> find_undeclared(const Body& body, std::set<std::string> names) {
  std::set<std::string> found;
  walk_names(body, [&](const Expr*, const std::string& name, NameUse use) {
    if (use == NameUse::Load && names.contains(name)) {
      found.insert(name);
    } else {
      names.erase(name);
    }
  });
  return found;
}

}  // namespace easydel::jinja

// The names of one frame while a template is analysed, after jinja2's idtracking.
#pragma once

#include <cstdint>

#include <functional>
#include <map>
#include <set>
#include <string>

#include "easydel/text/jinja/syntax/ast.h"

namespace easydel::jinja {

struct NameLoad {
  Load::Kind kind = Load::Unset;
  int level = 0;  // Alias: of the frame that holds the other variable of this name
};

class Symbols {
 public:
  explicit Symbols(const Symbols* parent, int64_t* work = nullptr)
      : parent_(parent), work_(parent ? parent->work_ : work), level_(parent ? parent->level_ + 1 : 0) {}

  int level() const { return level_; }
  int find(const std::string& name) const;  // the level of the frame that has it, or -1
  void store(const std::string& name);
  void load(const std::string& name);
  void declare_parameter(const std::string& name);
  void merge_branches(const std::vector<Symbols>& branches);

  // What the frame's own statements do with names; nested frames are not entered.
  void visit(const Body& body);
  void visit(const Stmt& stmt);
  void visit(const Expr& expr);
  void visit_target(const Expr& target, bool parameter);
  void visit_arguments(const Arguments& arguments);

  const std::map<std::string, NameLoad>& loads() const { return loads_; }

 private:
  void visit_if(const Stmt& stmt);
  void visit_elif(const Branch& branch);

  void spend(int line);

  const Symbols* parent_;
  int64_t* work_;  // names copied so far, over all frames
  int level_;
  std::map<std::string, NameLoad> loads_;  // every name of the frame
  std::set<std::string> stores_;
};

enum class NameUse { Load, Store };
using SeeName = std::function<void(const Expr*, const std::string&, NameUse)>;
// Every name below, in the order of jinja2's own walk.
void walk_names(const Body& body, const SeeName& see);
void walk_target(const Expr& target, const SeeName& see);

// Those of `names` that are read before they are set.
std::set<std::string> find_undeclared(const Body& body, std::set<std::string> names);

}  // namespace easydel::jinja

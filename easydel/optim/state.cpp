#include "easydel/optim/state.h"

#include <ATen/ATen.h>

#include "easydel/core/error.h"

namespace easydel::optim {
namespace {

template <class State, class Named>
void list_leaves(State& state, const std::string& prefix, std::vector<Named>& out) {
  for (auto& [tree, leaves] : state.trees) {
    for (auto& [path, leaf] : leaves) out.push_back({prefix + tree + "/" + path, &leaf});
  }
  for (std::size_t i = 0; i < state.children.size(); ++i) {
    list_leaves(state.children[i], prefix + std::to_string(i) + "/", out);
  }
}

void check(const OptState& state, const Json& json, const std::string& where) {
  const Json* kind = json.find("kind");
  require<ConfigError>(kind && kind->is_string(), "[OptState] ", where, ": \"kind\" must be a string.");
  require<ConfigError>(kind->as_string() == state.kind, "[OptState] ", where, " is the state of \"", kind->as_string(),
                       "\", but the optimizer is \"", state.kind, "\". Use the optimizer that saved it.");
  for (const auto& [name, value] : state.counts) {
    const Json* counts = json.find("counts");
    const Json* count = counts ? counts->find(name) : nullptr;
    require<ConfigError>(count && count->is_int() && count->as_int() >= 0, "[OptState] ", where, ": counts.", name,
                         " must be a non-negative integer; got ", count ? count->dump() : "nothing", ".");
  }
  for (const auto& [name, value] : state.scalars) {
    const Json* scalars = json.find("scalars");
    const Json* scalar = scalars ? scalars->find(name) : nullptr;
    require<ConfigError>(scalar && scalar->is_number(), "[OptState] ", where, ": scalars.", name,
                         " must be a number; got ", scalar ? scalar->dump() : "nothing", ".");
  }
  const Json* children = json.find("children");
  const std::size_t given = children && children->is_array() ? children->size() : 0;
  require<ConfigError>(given == state.children.size(), "[OptState] ", where, ": \"", state.kind, "\" has ",
                       state.children.size(), " children; got ", given, ".");
  for (std::size_t i = 0; i < given; ++i) check(state.children[i], children->at(i), concat(where, "/", i));
}

void take(OptState& state, const Json& json) {
  for (auto& [name, value] : state.counts) value = json.at("counts").at(name).as_int();
  for (auto& [name, value] : state.scalars) value = json.at("scalars").at(name).as_double();
  for (std::size_t i = 0; i < state.children.size(); ++i) take(state.children[i], json.at("children").at(i));
}

}  // namespace

std::vector<OptState::Named> OptState::leaves() {
  std::vector<Named> out;
  list_leaves(*this, "", out);
  return out;
}

std::vector<OptState::ConstNamed> OptState::leaves() const {
  std::vector<ConstNamed> out;
  list_leaves(*this, "", out);
  return out;
}

Json OptState::to_json() const {
  Json json = Json::object({{"kind", kind}});
  if (!counts.empty()) {
    Json& object = json["counts"] = Json::object();
    for (const auto& [name, value] : counts) object[name] = value;
  }
  if (!scalars.empty()) {
    Json& object = json["scalars"] = Json::object();
    for (const auto& [name, value] : scalars) object[name] = value;
  }
  if (!children.empty()) {
    Json& array = json["children"] = Json::array();
    for (const OptState& child : children) array.push_back(child.to_json());
  }
  return json;
}

void OptState::load_json(const Json& json, const std::string& where) {
  check(*this, json, where);
  take(*this, json);
}

OptState OptState::clone() const {
  const at::NoGradGuard no_grad;
  OptState copy = *this;
  for (const Named& named : copy.leaves()) named.leaf->value = named.leaf->value.clone();
  return copy;
}

int64_t OptState::nbytes() const {
  int64_t sum = 0;
  for (const ConstNamed& named : leaves()) sum += static_cast<int64_t>(named.leaf->value.nbytes());
  return sum;
}

}  // namespace easydel::optim

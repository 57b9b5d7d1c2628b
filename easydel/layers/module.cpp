#include "easydel/layers/module.h"

#include <cxxabi.h>

#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <functional>
#include <typeinfo>
#include <unordered_map>
#include <unordered_set>

#include "easydel/core/error.h"

namespace easydel {
namespace {

// What lies between the parts of a dotted name: "output" of "output.dense".
class Container final : public Module {
 public:
  std::string type_name() const override { return "Module"; }
};

std::string join(const std::string& prefix, const std::string& name) {
  if (name.empty()) return prefix;
  std::string path;
  path.reserve(prefix.size() + 1 + name.size());
  path += prefix;
  if (!prefix.empty()) path += '.';
  return path += name;
}

// Without a map node for each, because there are almost never any.
bool has_repeats(std::vector<const Parameter*> all) {
  std::sort(all.begin(), all.end());
  return std::adjacent_find(all.begin(), all.end()) != all.end();
}

// For a Module& and a const one alike.
template <class Named, class M>
std::vector<Named> collect_modules(M& root) {
  std::vector<Named> found;
  const std::function<void(const std::string&, M&)> walk = [&](const std::string& path, M& module) {
    found.push_back({path, &module});
    for (const auto& [name, child] : module.children()) walk(join(path, name), *child);
  };
  walk("", root);
  return found;
}

}  // namespace

std::vector<Module::NamedModule> Module::named_modules() { return collect_modules<NamedModule>(*this); }

std::vector<Module::ConstNamedModule> Module::named_modules() const { return collect_modules<ConstNamedModule>(*this); }

// Loading walks over the parameters several times, so a path is made where it is kept and nowhere else.
bool Module::has_lazy_parameters() const {
  return std::any_of(parameters_.begin(), parameters_.end(), [](const auto& p) { return p.second->is_lazy(); }) ||
         std::any_of(children_.begin(), children_.end(), [](const auto& c) { return c.second->has_lazy_parameters(); });
}

std::vector<Module::NamedParameter> Module::named_parameters() const {
  std::vector<NamedParameter> found;
  std::string path;
  const std::function<void(const Module&)> walk = [&](const Module& module) {
    const std::size_t length = path.size();
    const auto extend = [&](const std::string& name) {
      path.resize(length);
      if (name.empty()) return;
      if (length > 0) path += '.';
      path += name;
    };
    for (const auto& [name, parameter] : module.parameters_) {
      extend(name);
      found.push_back({path, parameter});
    }
    for (const auto& [name, child] : module.children_) {
      extend(name);
      walk(*child);
    }
    path.resize(length);
  };
  walk(*this);
  std::vector<const Parameter*> all;
  for (const NamedParameter& named : found) all.push_back(named.parameter.get());
  if (has_repeats(std::move(all))) {
    std::unordered_set<const Parameter*> seen;
    std::erase_if(found, [&](const NamedParameter& named) { return !seen.insert(named.parameter.get()).second; });
  }
  return found;
}

std::vector<std::pair<std::string, std::string>> Module::tied_parameters() const {
  std::vector<std::pair<std::string, std::string>> tied;
  std::vector<const Parameter*> all;
  const auto gather = [&](const auto& self, const Module& module) -> void {
    for (const auto& [name, parameter] : module.parameters_) all.push_back(parameter.get());
    for (const auto& [name, child] : module.children_) self(self, *child);
  };
  gather(gather, *this);
  if (!has_repeats(std::move(all))) return tied;
  std::unordered_map<const Parameter*, std::string> first;
  for (const auto& [path, module] : named_modules()) {
    for (const auto& [name, parameter] : module->parameters_) {
      const auto [known, added] = first.try_emplace(parameter.get(), join(path, name));
      if (!added) tied.emplace_back(join(path, name), known->second);
    }
  }
  return tied;
}

std::vector<Module::NamedBuffer> Module::named_buffers() {
  std::vector<NamedBuffer> found;
  for (const auto& [path, module] : named_modules()) {
    for (const auto& [name, tensor] : module->buffers_) found.push_back({join(path, name), tensor.get()});
  }
  return found;
}

std::vector<Module::ConstNamedBuffer> Module::named_buffers() const {
  std::vector<ConstNamedBuffer> found;
  for (const auto& [path, module] : named_modules()) {
    for (const auto& [name, tensor] : module->buffers_) found.push_back({join(path, name), tensor.get()});
  }
  return found;
}

void Module::set_dtype(DType dtype) {
  dtype_ = dtype;
  for (const auto& [name, child] : children_) child->set_dtype(dtype);
}

void Module::set_parallel(const std::shared_ptr<const Parallel>& parallel) {
  for (const auto& [path, module] : named_modules()) module->parallel_ = parallel;
}

const AxisNames& Module::split_over(LogicalAxis axis) const {
  static const AxisNames none;
  return parallel_ ? parallel_->axes(axis) : none;
}

std::string Module::type_name() const {
  int status = 0;
  char* text = abi::__cxa_demangle(typeid(*this).name(), nullptr, nullptr, &status);
  std::string name = status == 0 ? text : typeid(*this).name();
  std::free(text);
  name = name.substr(0, name.find('<'));
  const auto colon = name.rfind("::");
  return colon == std::string::npos ? name : name.substr(colon + 2);
}

std::shared_ptr<Parameter> Module::add_parameter(std::string name, std::vector<Dim> dims, Initializer init) {
  parameters_.emplace_back(std::move(name), std::make_shared<Parameter>(std::move(dims), init));
  return parameters_.back().second;
}

void Module::set_parameter(std::string_view name, std::shared_ptr<Parameter> parameter) {
  const auto own = std::find_if(parameters_.begin(), parameters_.end(), [&](const auto& p) { return p.first == name; });
  if (!parameter) {
    if (own != parameters_.end()) parameters_.erase(own);
  } else if (own != parameters_.end()) {
    own->second = std::move(parameter);
  } else {
    parameters_.emplace_back(name, std::move(parameter));
  }
}

void Module::attach(std::string name, std::unique_ptr<Module> child) {
  child->set_dtype(dtype_);
  child->set_parallel(parallel_);
  add_child(std::move(name), std::move(child));
}

std::unique_ptr<Module> Module::detach(std::string_view name) {
  const auto found = std::find_if(children_.begin(), children_.end(), [&](const auto& c) { return c.first == name; });
  if (found == children_.end()) return nullptr;
  std::unique_ptr<Module> taken = std::move(found->second);
  children_.erase(found);
  return taken;
}

Module* Module::child(std::string_view name) const {
  const auto found = std::find_if(children_.begin(), children_.end(), [&](const auto& c) { return c.first == name; });
  return found == children_.end() ? nullptr : found->second.get();
}

void Module::tie_parameter(std::string_view name, std::shared_ptr<Parameter> parameter) {
  for (auto& [own_name, own] : parameters_) {
    if (own_name != name) continue;
    require<ShapeError>(own->shape == parameter->shape, "[", type_name(), "] \"", name, "\" is ",
                        at::IntArrayRef(own->shape), " and cannot be tied to a weight of ",
                        at::IntArrayRef(parameter->shape), ".");
    own = std::move(parameter);
    return;
  }
  assert(!"tie_parameter names a parameter that was never added");
}

at::Tensor& Module::add_buffer(std::string name, at::Tensor value) {
  buffers_.emplace_back(std::move(name), std::make_unique<at::Tensor>(std::move(value)));
  return *buffers_.back().second;
}

void Module::add_child(std::string name, std::unique_ptr<Module> child) {
  if (const auto dot = name.find('.'); dot != std::string::npos) {
    const std::string first = name.substr(0, dot);
    auto* between = dynamic_cast<Container*>(this->child(first));
    if (!between) {
      auto made = std::make_unique<Container>();
      made->dtype_ = dtype_;
      made->parallel_ = parallel_;
      between = made.get();
      children_.emplace_back(first, std::move(made));
    }
    between->Module::add_child(name.substr(dot + 1), std::move(child));
    return;
  }
  children_.emplace_back(std::move(name), std::move(child));
}

}  // namespace easydel

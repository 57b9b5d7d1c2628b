// Modules as text.
#include <iostream>

#include "easydel/core/error.h"
#include "easydel/infra/base_module.h"

namespace easydel {
namespace {

std::string indent_lines(const std::string& text, std::size_t blanks) {
  std::string out;
  for (const char c : text) {
    out += c;
    if (c == '\n') out.append(blanks, ' ');
  }
  return out;
}

std::string tree(const Module& module, int max_depth, int depth) {
  const std::string extra = module.extra_repr();
  if (module.children().empty()) return concat(module.type_name(), "(", extra, ")");
  if (max_depth >= 0 && depth >= max_depth) return concat(module.type_name(), "(...)");
  std::string out = concat(module.type_name(), "(\n");
  if (!extra.empty()) out += concat("  ", extra, "\n");
  const auto& children = module.children();
  for (std::size_t i = 0; i < children.size();) {
    const std::string text = tree(*children[i].second, max_depth, depth + 1);
    std::size_t last = i;
    // Layers that look alike stand once, as torch does it: "(0-31): 32 x LlamaDecoderLayer(...)".
    if (module.type_name() == "ModuleList") {
      while (last + 1 < children.size() && tree(*children[last + 1].second, max_depth, depth + 1) == text) ++last;
    }
    const std::string name = last > i
                                 ? concat("(", children[i].first, "-", children[last].first, "): ", last - i + 1, " x ")
                                 : concat("(", children[i].first, "): ");
    out += concat("  ", name, indent_lines(text, 2), "\n");
    i = last + 1;
  }
  return out + ")";
}

}  // namespace

std::string prettify(const Module& module, int max_depth) { return tree(module, max_depth, 0); }

void printify(const Module& module) { std::cout << prettify(module) << "\n"; }

std::string get_module_repr(const Module& module) {
  std::string out;
  for (const auto& [path, parameter] : module.named_parameters()) {
    out += concat(path, ": ", dtype_name(parameter->value().scalar_type()), at::IntArrayRef(parameter->shape), "\n");
  }
  return out;
}

}  // namespace easydel

#include "easydel/infra/parallel/sharding_plan.h"

#include <algorithm>

#include "easydel/core/error.h"
#include "easydel/core/text/bytes.h"
#include "easydel/infra/registry.h"
#include "easydel/infra/state/state_layout.h"
#include "easydel/optim/optimizers.h"

namespace easydel {
namespace {

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (std::size_t d = 0; d < shape.size(); ++d) text += concat(d ? ", " : "", shape[d]);
  return text + "]";
}

// "1.5 MiB", or "1.5 MiB to 2.0 MiB" where ranks differ.
std::string range_text(const std::vector<int64_t>& bytes) {
  const auto [least, most] = std::minmax_element(bytes.begin(), bytes.end());
  const std::string low = format_bytes(*least), high = format_bytes(*most);
  return low == high ? low : concat(low, " to ", high);
}

}  // namespace

ShardingPlan plan_sharding(const BaseModule& module, int64_t devices) {
  // A copy without memory, on ranks that do not run.
  const auto planned = Registry::instance().make_module(module.config(), module.model_task());
  planned->set_options(module.options());
  const PartitionRules rules = module.partition_rules();
  ShardingPlan plan;
  plan.mesh = module.config().create_mesh(devices);
  plan.rank_bytes.assign(static_cast<std::size_t>(devices), 0);
  plan.moment_bytes = plan.rank_bytes;
  place_parameters(*planned, {}, planned_world(devices), plan.mesh);
  const optim::OptState moments = StateLayout(planned->graphdef()).plan(*optim::adamw(1e-3));
  for (const auto& [name, leaf] : moments.leaves()) {
    for (int64_t rank = 0; rank < devices; ++rank) {
      const std::vector<int64_t> shape =
          leaf->sharding ? shape_of(leaf->sharding->stored(rank)) : leaf->value.sizes().vec();
      plan.moment_bytes[static_cast<std::size_t>(rank)] +=
          c10::multiply_integers(shape) * static_cast<int64_t>(leaf->value.element_size());
    }
  }
  for (const auto& [path, parameter] : planned->named_parameters()) {
    const auto size = static_cast<int64_t>(parameter->value().element_size());
    plan.rows.push_back({.path = path,
                         .rule = rules.rules()[*rules.find(path)].pattern,
                         .spec = parameter->sharding() ? parameter->sharding()->spec() : rules.match(path),
                         .shape = parameter->shape,
                         .local_shape = parameter->stored_shape(),
                         .local_bytes = parameter->value().numel() * size});
    plan.bytes += c10::multiply_integers(parameter->shape) * size;
    for (int64_t rank = 0; rank < devices; ++rank) {
      const std::vector<int64_t> shape =
          parameter->sharding() ? shape_of(parameter->sharding()->stored(rank)) : parameter->shape;
      plan.rank_bytes[static_cast<std::size_t>(rank)] += c10::multiply_integers(shape) * size;
    }
  }
  return plan;
}

std::string ShardingPlan::to_string() const {
  std::vector<std::vector<std::string>> cells{{"parameter", "shape", "rank 0", "bytes", "spec", "rule"}};
  for (const Row& row : rows) {
    cells.push_back({row.path, shape_text(row.shape), shape_text(row.local_shape), format_bytes(row.local_bytes),
                     row.spec.to_string(), row.rule});
  }
  std::vector<std::size_t> widths(cells[0].size(), 0);
  for (const auto& line : cells) {
    for (std::size_t c = 0; c < line.size(); ++c) widths[c] = std::max(widths[c], line[c].size());
  }
  std::string text;
  for (const auto& line : cells) {
    for (std::size_t c = 0; c < line.size(); ++c) {
      text += line[c];
      if (c + 1 < line.size()) text += std::string(widths[c] - line[c].size() + 2, ' ');
    }
    text += "\n";
  }
  const std::string ranks = concat(" on each of ", rank_bytes.size(), rank_bytes.size() == 1 ? " rank" : " ranks");
  text +=
      concat("\nmesh    ", mesh.to_string(), "\nstored  ", range_text(rank_bytes), ranks, ", of ", format_bytes(bytes),
             "\nmoments ", range_text(moment_bytes), ranks, " with adamw, of ", format_bytes(2 * bytes), "\n");
  return text;
}

Json ShardingPlan::to_json() const {
  Json dims = Json::object();
  for (const MeshAxis& axis : mesh.axes()) dims[axis.name] = axis.size;
  Json list = Json::array();
  for (const Row& row : rows) {
    list.push_back(Json::object({{"path", row.path},
                                 {"rule", row.rule},
                                 {"spec", row.spec.to_string()},
                                 {"shape", row.shape},
                                 {"local_shape", row.local_shape},
                                 {"local_bytes", row.local_bytes}}));
  }
  return Json::object({{"mesh", std::move(dims)},
                       {"bytes", bytes},
                       {"rank_bytes", rank_bytes},
                       {"moment_bytes", moment_bytes},
                       {"parameters", std::move(list)}});
}

}  // namespace easydel

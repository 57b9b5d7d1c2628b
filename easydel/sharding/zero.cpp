#include "easydel/sharding/zero.h"

namespace easydel {

PartitionSpec whole_over_data(const WeightSharding& weight) {
  std::vector<SpecDim> dims;
  for (std::size_t d = 0; d < weight.spec().size(); ++d) {
    dims.emplace_back(without(weight.spec().axes(d), without(weight.parallel().data(), weight.compute_axes(d))));
  }
  return PartitionSpec(std::move(dims));
}

PartitionSpec split_over_data(const WeightSharding& weight) {
  const PartitionSpec& spec = weight.spec();
  const AxisNames added = without(weight.parallel().data(), spec.axes());
  const std::vector<Dim>& dims = weight.dims();
  if (added.empty() || dims.empty()) return spec;
  const Mesh& mesh = weight.parallel().mesh().mesh();
  std::size_t chosen = 0;
  int64_t largest = -1;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    const int64_t parts = mesh.size(spec.axes(d));
    if (dims[d].size % (parts * mesh.size(added)) == 0) {
      chosen = d;
      break;
    }
    if (dims[d].size / parts > largest) {
      largest = dims[d].size / parts;
      chosen = d;
    }
  }
  std::vector<SpecDim> split;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    split.emplace_back(d == chosen ? with(spec.axes(d), added) : spec.axes(d));
  }
  return PartitionSpec(std::move(split));
}

std::shared_ptr<const WeightSharding> split_over_data(const std::shared_ptr<const WeightSharding>& weight) {
  if (!weight) return nullptr;
  PartitionSpec spec = split_over_data(*weight);
  if (spec == weight->spec()) return weight;
  return std::make_shared<const WeightSharding>(weight->dims(), std::move(spec), weight->shared_parallel());
}

}  // namespace easydel

#include "easydel/sharding/mesh/partition_spec.h"

#include <algorithm>
#include <ostream>
#include <set>

#include "easydel/core/error.h"

namespace easydel {
namespace {

std::string quoted(const std::string& axis) { return "'" + axis + "'"; }

std::string dim_text(const AxisNames& axes) {
  if (axes.empty()) return "None";
  if (axes.size() == 1) return quoted(axes[0]);
  std::string text = "(";
  for (std::size_t i = 0; i < axes.size(); ++i) text += (i ? "," : "") + quoted(axes[i]);
  return text + ")";
}

}  // namespace

PartitionSpec::PartitionSpec(std::vector<SpecDim> dims) : dims_(std::move(dims)) {
  std::set<std::string_view> seen;
  for (const SpecDim& dim : dims_) {
    for (const std::string& axis : dim.axes) {
      require<ConfigError>(!axis.empty(), "[PartitionSpec] an axis must have a name; got ", to_string(), ".");
      require<ConfigError>(seen.insert(axis).second, "[PartitionSpec] axis names must be unique; got '", axis,
                           "' twice in ", to_string(), ".");
    }
  }
}

const AxisNames& PartitionSpec::axes(std::size_t dim) const {
  static const AxisNames none;
  return dim < dims_.size() ? dims_[dim].axes : none;
}

AxisNames PartitionSpec::axes() const {
  AxisNames all;
  for (const SpecDim& dim : dims_) all.insert(all.end(), dim.axes.begin(), dim.axes.end());
  return all;
}

bool PartitionSpec::mentions(std::string_view axis) const {
  return std::any_of(dims_.begin(), dims_.end(), [&](const SpecDim& dim) {
    return std::find(dim.axes.begin(), dim.axes.end(), axis) != dim.axes.end();
  });
}

std::string PartitionSpec::to_string() const {
  std::string text = "P(";
  for (std::size_t i = 0; i < dims_.size(); ++i) text += (i ? ", " : "") + dim_text(dims_[i].axes);
  return text + ")";
}

bool operator==(const PartitionSpec& a, const PartitionSpec& b) {
  for (std::size_t dim = 0; dim < std::max(a.size(), b.size()); ++dim) {
    if (a.axes(dim) != b.axes(dim)) return false;
  }
  return true;
}

std::ostream& operator<<(std::ostream& out, const PartitionSpec& spec) { return out << spec.to_string(); }

}  // namespace easydel

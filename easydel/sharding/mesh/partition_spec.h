// How one tensor is sharded: the mesh axes of each dimension, as in P('fsdp', ('tp','sp'), None).
#pragma once

#include <cstddef>
#include <initializer_list>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

namespace easydel {

using AxisNames = std::vector<std::string>;

// One dimension: no axis, one, or several, the first varying slowest.
struct SpecDim {
  SpecDim() = default;
  SpecDim(std::nullptr_t) {}
  SpecDim(const char* axis) : axes{axis} {}
  SpecDim(std::string axis) : axes{std::move(axis)} {}
  SpecDim(std::initializer_list<std::string_view> names) : axes(names.begin(), names.end()) {}
  SpecDim(AxisNames names) : axes(std::move(names)) {}

  AxisNames axes;
  friend bool operator==(const SpecDim&, const SpecDim&) = default;
};

// PartitionSpec{"fsdp", {"tp", "sp"}, nullptr}. Dimensions past the last one are not split.
class PartitionSpec {
 public:
  PartitionSpec() = default;  // nothing is split
  // ConfigError on an empty axis name, or on one that is named twice.
  PartitionSpec(std::initializer_list<SpecDim> dims) : PartitionSpec(std::vector<SpecDim>(dims)) {}
  explicit PartitionSpec(std::vector<SpecDim> dims);

  std::size_t size() const { return dims_.size(); }  // dimensions of the spec
  const AxisNames& axes(std::size_t dim) const;      // empty past the last one
  AxisNames axes() const;                            // of all dimensions
  bool mentions(std::string_view axis) const;
  std::string to_string() const;

  // Equal when they split every tensor the same way: P('tp') and P('tp', None) are.
  friend bool operator==(const PartitionSpec& a, const PartitionSpec& b);

 private:
  std::vector<SpecDim> dims_;
};

std::ostream& operator<<(std::ostream& out, const PartitionSpec& spec);

}  // namespace easydel

// A named grid of devices: {{"dp", 2}, {"tp", 4}} is eight devices seen as two rows of four.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace easydel {

struct MeshAxis {
  std::string name;
  int64_t size = 1;      // devices along it, in total
  int64_t dcn_size = 1;  // number of slices of it connected by the slower data center network
  friend bool operator==(const MeshAxis&, const MeshAxis&) = default;
};

// Immutable and cheap to copy. Ranks are ordered by DCN slice first, then by the axes within a slice; in both, the
// last axis varies fastest.
class Mesh {
 public:
  Mesh() = default;  // one device
  // ConfigError on an empty or repeated name, a size below 1, or a dcn_size that does not divide its size.
  explicit Mesh(std::vector<MeshAxis> axes);

  int64_t size() const { return size_; }                  // devices in total
  int64_t size(std::string_view axis) const;              // 1 for an axis this mesh lacks
  int64_t size(std::span<const std::string> axes) const;  // of the group over these axes
  bool contains(std::string_view axis) const;
  const std::vector<MeshAxis>& axes() const { return axes_; }

  int64_t coordinate(std::string_view axis, int64_t rank) const;  // 0 for an axis this mesh lacks
  std::vector<int64_t> coordinates(int64_t rank) const;           // one for each axis
  int64_t rank(std::span<const int64_t> coordinates) const;

  // The ranks that differ from `rank` along these axes only, including itself. The first axis varies slowest, which is
  // the order of the chunks of a dimension split over these axes.
  std::vector<int64_t> group(std::span<const std::string> axes, int64_t rank) const;
  int64_t index_in_group(std::span<const std::string> axes, int64_t rank) const;

  std::string to_string() const;  // "dp=1 fsdp=4 ep=1 tp=2 sp=1"
  friend bool operator==(const Mesh&, const Mesh&) = default;

 private:
  void check_rank(int64_t rank) const;
  int64_t position(std::string_view axis) const;  // -1 when the mesh lacks it

  std::vector<MeshAxis> axes_;
  int64_t size_ = 1;
};

struct MeshOptions {
  std::vector<int64_t> axis_dims = {1, -1, 1, 1, 1};  // one may be -1: all remaining devices
  std::vector<std::string> axis_names = {"dp", "fsdp", "ep", "tp", "sp"};
  std::vector<int64_t> dcn_axis_dims = {};  // DCN slices of each axis; empty: one
  int64_t device_count = 1;
};

// Four axes (dp, fsdp, tp, sp) mean ep = 1. ConfigError shows the arithmetic of an impossible mesh.
Mesh create_mesh(const MeshOptions& options);

// The part of create_mesh that is independent of device_count: fills in ep, checks lengths, names and sizes.
MeshOptions normalize(MeshOptions options);

}  // namespace easydel

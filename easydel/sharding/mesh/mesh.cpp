#include "easydel/sharding/mesh/mesh.h"

#include <algorithm>
#include <set>

#include "easydel/core/error.h"

namespace easydel {
namespace {

int64_t inner_size(const MeshAxis& axis) { return axis.size / axis.dcn_size; }

}  // namespace

Mesh::Mesh(std::vector<MeshAxis> axes) : axes_(std::move(axes)) {
  std::set<std::string_view> seen;
  for (const MeshAxis& axis : axes_) {
    require<ConfigError>(!axis.name.empty(), "[Mesh] an axis must have a name; got an empty one.");
    require<ConfigError>(seen.insert(axis.name).second, "[Mesh] axis names must be unique; got \"", axis.name,
                         "\" twice.");
    require<ConfigError>(axis.size >= 1, "[Mesh] the size of an axis must be at least 1; got ", axis.name, " = ",
                         axis.size, ".");
    require<ConfigError>(axis.dcn_size >= 1 && axis.size % axis.dcn_size == 0,
                         "[Mesh] the dcn_size of an axis must divide its size; got ", axis.dcn_size, " of ", axis.name,
                         " = ", axis.size, ".");
    size_ *= axis.size;
  }
}

int64_t Mesh::position(std::string_view axis) const {
  const auto found = std::find_if(axes_.begin(), axes_.end(), [&](const MeshAxis& a) { return a.name == axis; });
  return found == axes_.end() ? -1 : found - axes_.begin();
}

bool Mesh::contains(std::string_view axis) const { return position(axis) >= 0; }

int64_t Mesh::size(std::string_view axis) const {
  const int64_t at = position(axis);
  return at < 0 ? 1 : axes_[at].size;
}

int64_t Mesh::size(std::span<const std::string> axes) const {
  int64_t product = 1;
  for (const std::string& axis : axes) product *= size(axis);
  return product;
}

void Mesh::check_rank(int64_t rank) const {
  require<ConfigError>(rank >= 0 && rank < size_, "[Mesh] a rank must be at least 0 and below ", size_, "; got ", rank,
                       ".");
}

std::vector<int64_t> Mesh::coordinates(int64_t rank) const {
  check_rank(rank);
  std::vector<int64_t> coordinates(axes_.size());
  for (std::size_t i = axes_.size(); i-- > 0;) {
    coordinates[i] = rank % inner_size(axes_[i]);
    rank /= inner_size(axes_[i]);
  }
  for (std::size_t i = axes_.size(); i-- > 0;) {
    coordinates[i] += rank % axes_[i].dcn_size * inner_size(axes_[i]);
    rank /= axes_[i].dcn_size;
  }
  return coordinates;
}

int64_t Mesh::rank(std::span<const int64_t> coordinates) const {
  require<ConfigError>(coordinates.size() == axes_.size(), "[Mesh] there must be one coordinate for each of ",
                       axes_.size(), " axes; got ", coordinates.size(), ".");
  int64_t rank = 0;
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    require<ConfigError>(coordinates[i] >= 0 && coordinates[i] < axes_[i].size, "[Mesh] the coordinate along ",
                         axes_[i].name, " must be at least 0 and below ", axes_[i].size, "; got ", coordinates[i], ".");
    rank = rank * axes_[i].dcn_size + coordinates[i] / inner_size(axes_[i]);
  }
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    rank = rank * inner_size(axes_[i]) + coordinates[i] % inner_size(axes_[i]);
  }
  return rank;
}

int64_t Mesh::coordinate(std::string_view axis, int64_t rank) const {
  check_rank(rank);
  const int64_t at = position(axis);
  return at < 0 ? 0 : coordinates(rank)[at];
}

std::vector<int64_t> Mesh::group(std::span<const std::string> axes, int64_t rank) const {
  std::vector<int64_t> coordinates = this->coordinates(rank);
  std::vector<int64_t> ranks(size(axes));
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    int64_t rest = static_cast<int64_t>(i);
    for (std::size_t a = axes.size(); a-- > 0;) {
      const int64_t at = position(axes[a]);
      if (at < 0) continue;
      coordinates[at] = rest % axes_[at].size;
      rest /= axes_[at].size;
    }
    ranks[i] = this->rank(coordinates);
  }
  return ranks;
}

int64_t Mesh::index_in_group(std::span<const std::string> axes, int64_t rank) const {
  int64_t index = 0;
  for (const std::string& axis : axes) index = index * size(axis) + coordinate(axis, rank);
  return index;
}

std::string Mesh::to_string() const {
  std::string text;
  for (const MeshAxis& axis : axes_) text += (text.empty() ? "" : " ") + axis.name + "=" + std::to_string(axis.size);
  return text;
}

}  // namespace easydel

#include "easydel/core/error.h"
#include "easydel/sharding/world/current_world.h"

namespace easydel {

DeviceMesh::DeviceMesh(Mesh mesh, std::shared_ptr<World> world) : mesh_(std::move(mesh)), world_(std::move(world)) {
  require<ConfigError>(mesh_.size() == world_->size(), "[DeviceMesh] a mesh must have a device for each rank; got ",
                       mesh_.to_string(), " = ", mesh_.size(), " devices for ", world_->size(),
                       world_->size() == 1 ? " rank." : " ranks.");
}

std::shared_ptr<DeviceMesh> DeviceMesh::single() { return std::make_shared<DeviceMesh>(Mesh(), single_world()); }

int64_t DeviceMesh::index(const std::vector<std::string>& axes) const { return mesh_.index_in_group(axes, rank()); }

const Group& DeviceMesh::group(const std::vector<std::string>& axes) const {
  std::vector<std::string> wide;
  std::string name;
  for (const std::string& axis : axes) {
    if (mesh_.size(axis) == 1) continue;
    wide.push_back(axis);
    name += (name.empty() ? "" : "+") + axis;
  }
  std::shared_ptr<Group>& group = groups_[name];
  if (!group) group = world_->group(name, mesh_.group(wide, rank()));
  return *group;
}

}  // namespace easydel

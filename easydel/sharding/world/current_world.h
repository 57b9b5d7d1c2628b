// For implementations of World: the calling thread's current one.
#pragma once

#include <memory>

#include "easydel/sharding/world/world.h"

namespace easydel {

// World::current() returns this one on the calling thread during its lifetime.
class WorldScope {
 public:
  explicit WorldScope(std::shared_ptr<World> world);
  ~WorldScope();
  WorldScope(const WorldScope&) = delete;
  WorldScope& operator=(const WorldScope&) = delete;

 private:
  std::shared_ptr<World> previous_;
};

std::shared_ptr<World> single_world();  // a new one, of one rank

// The index of the world's own rank in `ranks`. ConfigError when it is missing, or a rank is repeated or out of range.
int64_t member_index(const World& world, std::span<const int64_t> ranks);

}  // namespace easydel

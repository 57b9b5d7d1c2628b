// For implementations of World: the calling thread's current one.
#pragma once

#include <memory>

#include "easydel/core/runtime.h"
#include "easydel/sharding/world/world.h"

namespace easydel {

// World::current() gives this one to the calling thread while it lives.
class WorldScope : RankScope {
 public:
  explicit WorldScope(const std::shared_ptr<World>& world) : RankScope({world->rank(), world->size(), world}) {}
};

std::shared_ptr<World> single_world();  // a new one, of one rank

// The index of the world's own rank in `ranks`. ConfigError when it is missing, or a rank is repeated or out of range.
int64_t member_index(const World& world, std::span<const int64_t> ranks);

}  // namespace easydel

#include "easydel/sharding/world/world.h"

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <cstdlib>
#include <set>

#include "easydel/core/error.h"
#include "easydel/core/runtime.h"
#include "easydel/sharding/world/current_world.h"
#include "easydel/sharding/world/process_world.h"

namespace easydel {
namespace {

class SingleWorld : public World {
 public:
  int64_t rank() const override { return 0; }
  int64_t size() const override { return 1; }
  std::string backend_name() const override { return "single"; }
  std::shared_ptr<Group> group(const std::string& name, std::span<const int64_t> ranks) override {
    member_index(*this, ranks);
    return std::make_shared<Group>(name, nullptr, stats_);
  }
};

class PlannedWorld : public World {
 public:
  PlannedWorld(int64_t size, int64_t rank) : size_(size), rank_(rank) {}
  int64_t rank() const override { return rank_; }
  int64_t size() const override { return size_; }
  std::string backend_name() const override { return "planned"; }
  std::shared_ptr<Group> group(const std::string& name, std::span<const int64_t>) override {
    fail<DistributedError>("[World] the ranks of \"", name, "\" are simulated, and cannot compute.");
  }

 private:
  int64_t size_, rank_;
};

const std::shared_ptr<World>& process_world() {
  static const std::shared_ptr<World> world = make_process_world();
  return world;
}

}  // namespace

std::chrono::milliseconds default_collective_timeout() {
  const char* text = std::getenv("EASYDEL_TIMEOUT");
  if (text == nullptr || *text == '\0') return std::chrono::minutes(10);
  char* end = nullptr;
  const double seconds = std::strtod(text, &end);
  require<ConfigError>(*end == '\0' && seconds > 0 && seconds < 1e9,
                       "[World] EASYDEL_TIMEOUT must be a number of seconds above 0; got \"", text, "\".");
  return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
}

bool default_collective_debug() {
  const char* text = std::getenv("EASYDEL_DEBUG_COLLECTIVES");
  const std::string_view value = text == nullptr ? "" : text;
  require<ConfigError>(value.empty() || value == "0" || value == "1",
                       "[World] EASYDEL_DEBUG_COLLECTIVES must be 0 or 1; got \"", value, "\".");
  return value == "1";
}

std::shared_ptr<World> World::current() {
  const std::shared_ptr<World>& of_thread = current_rank().world;
  return of_thread ? of_thread : process_world();
}

std::shared_ptr<World> single_world() { return std::make_shared<SingleWorld>(); }

std::shared_ptr<World> planned_world(int64_t size, int64_t rank) { return std::make_shared<PlannedWorld>(size, rank); }

int64_t member_index(const World& world, std::span<const int64_t> ranks) {
  std::set<int64_t> seen;
  int64_t index = -1;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    require<ConfigError>(ranks[i] >= 0 && ranks[i] < world.size(), "[World] a rank of a group must be below ",
                         world.size(), "; got ", ranks[i], ".");
    require<ConfigError>(seen.insert(ranks[i]).second, "[World] the ranks of a group must be unique; got ", ranks[i],
                         " twice.");
    if (ranks[i] == world.rank()) index = static_cast<int64_t>(i);
  }
  require<ConfigError>(index >= 0, "[World] a rank must be a member of the groups that it creates; rank ", world.rank(),
                       " is not.");
  return index;
}

}  // namespace easydel

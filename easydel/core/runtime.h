// Process-wide state: the rank, available memory, and a check that the CPU's advertised features work.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace easydel {

std::string version();  // of this library: "0.1.0"

class World;  // sharding/world/world.h

// Which of all ranks the calling thread is: 0 of 1 until a launcher says otherwise.
struct RankContext {
  int64_t rank = 0;
  int64_t world_size = 1;
  std::shared_ptr<World> world = {};  // of a thread that is a rank
};

const RankContext& current_rank();  // of the calling thread; if unset, of the process

// Called once by a process that is a rank, before it starts threads that ask for it.
void set_process_rank(RankContext context);

// Sets the calling thread's rank while it lives.
class RankScope {
 public:
  explicit RankScope(RankContext context);
  ~RankScope();
  RankScope(const RankScope&) = delete;
  RankScope& operator=(const RankScope&) = delete;

 private:
  std::optional<RankContext> previous_;
};

std::string host_name();  // "unknown-host" where the system does not say

// Some virtual machines advertise AMX but hide CPUID leaf 0x1d, and oneDNN's bf16 kernels then die with SIGILL.
// Caps oneDNN below AMX on such machines, unless the user has set ONEDNN_MAX_CPU_ISA. The library calls this when
// it is loaded, before any oneDNN call.
void guard_onednn_isa();
bool amx_is_advertised_but_unusable();

}  // namespace easydel

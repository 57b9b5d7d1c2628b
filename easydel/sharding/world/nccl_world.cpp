#include <c10/cuda/CUDAFunctions.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "easydel/core/error.h"
#include "easydel/sharding/world/current_world.h"
#include "easydel/sharding/world/nccl_backend.h"
#include "easydel/sharding/world/process_world.h"

namespace easydel {
namespace {

using StorePtr = c10::intrusive_ptr<c10d::Store>;

StorePtr connect(const Launch& launch, const WorldOptions& options) {
  require<ConfigError>(!launch.address.empty(), "[World] ", launch.launcher,
                       " does not set the address of rank 0, and the ",
                       "ranks are on several machines. Set MASTER_ADDR to its host name.");
  c10d::TCPStoreOptions store;
  store.port = static_cast<uint16_t>(launch.port);
  store.isServer = launch.rank == 0 && !launch.has_store;
  store.numWorkers = static_cast<std::size_t>(launch.size);
  store.waitWorkers = false;
  store.timeout = options.timeout;
  try {
    return c10::make_intrusive<c10d::TCPStore>(launch.address, store);
  } catch (const c10::Error& error) {
    fail<DistributedError>("[World] rank ", launch.rank, " cannot connect to rank 0 at ", launch.address, ":",
                           launch.port, ": ", error.what_without_backtrace());
  }
}

[[noreturn]] void end_process(int64_t rank, const std::string& message) {
  std::fflush(nullptr);
  std::fprintf(stderr, "error: rank %d: %s\n", static_cast<int>(rank), message.c_str());
  ::_exit(1);
}

class NcclWorld : public World {
 public:
  NcclWorld(const Launch& launch, const WorldOptions& options)
      : launch_(launch), options_(options), device_(at::kCUDA, static_cast<c10::DeviceIndex>(use_gpu(launch))) {
    store_ = c10::make_intrusive<c10d::PrefixStore>(launch.store_prefix, connect(launch, options));
    const int64_t rank = launch.rank;
    monitor_ = std::make_shared<StoreMonitor>(store_->clone(), rank, options.timeout,
                                              [rank](const std::string& message) { end_process(rank, message); });
  }

  int64_t rank() const override { return launch_.rank; }
  int64_t size() const override { return launch_.size; }
  std::string backend_name() const override { return "nccl"; }

  std::shared_ptr<Group> group(const std::string& name, std::span<const int64_t> ranks) override {
    const int64_t member = member_index(*this, ranks);
    std::shared_ptr<Group>& group = groups_[{name, {ranks.begin(), ranks.end()}}];
    if (group) return group;
    c10::intrusive_ptr<NcclBackend> backend;
    if (ranks.size() > 1 || launch_.size == 1) backend = make_backend(name, ranks, member);
    if (backend) backends_.push_back(backend);
    group = std::make_shared<Group>(name, std::move(backend), stats_);
    return group;
  }

  // All ranks exit together, because rank 0 owns the store. Then NCCL is destroyed while CUDA is still initialized.
  void leave() {
    try {
      store_->add("exit", 1);
      wait_for_count("exit", size());
      if (rank() != 0) store_->add("left", 1);
      if (rank() == 0) wait_for_count("left", size() - 1);
      monitor_.reset();
      for (const auto& backend : backends_) backend->shutdown();
    } catch (const std::exception& error) {
      end_process(rank(), error.what());
    }
  }

  void report_status(int status) {
    try {
      store_->set(kFailureKey, concat("[World] rank ", rank(), " has ended with status ", status, "."));
    } catch (const std::exception&) {  // no one is listening
    }
  }

 private:
  c10::intrusive_ptr<NcclBackend> make_backend(const std::string& name, std::span<const int64_t> ranks,
                                               int64_t member) {
    auto watched = std::make_shared<WatchedGroup>();
    watched->name = name;
    watched->ranks.assign(ranks.begin(), ranks.end());
    auto options = c10d::ProcessGroupNCCL::Options::create();
    options->timeout =
        options_.timeout + std::chrono::minutes(1);  // so that the monitor, which can name a rank, reports first
    options->group_name = name;
    options->global_ranks_in_group.assign(ranks.begin(), ranks.end());
    auto store = c10::make_intrusive<c10d::PrefixStore>("nccl/" + watched->key(), store_->clone());
    auto inner = c10::make_intrusive<c10d::ProcessGroupNCCL>(store, static_cast<int>(member),
                                                             static_cast<int>(ranks.size()), options);
    StorePtr debug;
    if (options_.debug) debug = c10::make_intrusive<c10d::PrefixStore>("debug", store_->clone());
    return c10::make_intrusive<NcclBackend>(inner, device_, watched, monitor_, debug);
  }

  void wait_for_count(const std::string& key, int64_t count) {
    const auto deadline = std::chrono::steady_clock::now() + 2 * options_.timeout;
    while (store_->add(key, 0) < count) {
      require<DistributedError>(std::chrono::steady_clock::now() < deadline,
                                "[exit] not all ranks have reached the end of the run.");
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }

  const Launch launch_;
  const WorldOptions options_;
  const at::Device device_;
  StorePtr store_;
  std::shared_ptr<StoreMonitor> monitor_;
  std::vector<c10::intrusive_ptr<NcclBackend>> backends_;
  std::map<std::pair<std::string, std::vector<int64_t>>, std::shared_ptr<Group>> groups_;
};

void at_exit(int status, void* world) {
  auto& nccl = **static_cast<std::shared_ptr<NcclWorld>*>(world);
  if (status == 0) return nccl.leave();
  nccl.report_status(status);
  std::fflush(nullptr);
  ::_exit(status);  // NCCL's destructors would wait for the others
}

}  // namespace

bool has_nccl() { return true; }

std::shared_ptr<World> make_nccl_world(const Launch& launch, const WorldOptions& options) {
  require<NotSupportedError>(gpu_count() > 0, "[World] NCCL needs a GPU; this process sees none.");
  auto* world = new std::shared_ptr<NcclWorld>(std::make_shared<NcclWorld>(launch, options));  // lives until at_exit
  // Exit handlers run in reverse order: the state that torch uses in each CUDA call must be created before ours is
  // registered, or it is gone when NCCL is destroyed.
  c10::cuda::current_device();
  ::on_exit(at_exit, world);
  return *world;
}

}  // namespace easydel

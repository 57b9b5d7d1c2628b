#include "easydel/sharding/world/mpi_runtime.h"

#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <thread>

#include "easydel/core/error.h"
#include "easydel/sharding/collectives/collective_call.h"
#include "easydel/sharding/world/mpi_exchange.h"

namespace easydel {
namespace {

// Some MPI calls block until all ranks have made them. This ends the process when one takes too long; the launcher
// then ends the others.
class Watchdog {
 public:
  Watchdog(std::chrono::milliseconds limit, std::string message)
      : thread_([this, limit, message = std::move(message)] {
          std::unique_lock lock(mutex_);
          if (done_.wait_for(lock, limit, [&] { return over_; })) return;
          std::fprintf(stderr, "error: %s after %g s. EASYDEL_TIMEOUT sets the limit in seconds.\n", message.c_str(),
                       static_cast<double>(limit.count()) / 1000);
          ::_exit(1);
        }) {}
  ~Watchdog() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    done_.notify_one();
    thread_.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable done_;
  bool over_ = false;
  std::thread thread_;
};

uint64_t channel_id(const std::string& name, std::span<const int64_t> ranks) {
  uint64_t hash = 14695981039346656037u;  // FNV-1a, the same on every machine
  const auto mix = [&](uint64_t value) { hash = (hash ^ value) * 1099511628211u; };
  for (const char c : name) mix(static_cast<unsigned char>(c));
  for (const int64_t rank : ranks) mix(static_cast<uint64_t>(rank) + 256);
  return hash;
}

MPI_Comm duplicate_world() {
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  return comm;
}

}  // namespace

std::string where(const MpiChannel& channel, const std::string& what) {
  return concat("[", what, "] group \"", channel.name, "\" of ", describe_ranks(channel.ranks), ": ");
}

std::string mpi_error_text(int code) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  return {text, static_cast<std::size_t>(length)};
}

MpiRuntime& MpiRuntime::start(const WorldOptions& options) {
  static MpiRuntime* const runtime = new MpiRuntime(options);  // never destroyed: at_exit uses it
  return *runtime;
}

MpiRuntime::MpiRuntime(const WorldOptions& options) : options_(options), world_(std::make_shared<MpiChannel>()) {
  const Watchdog watchdog(options.timeout, "[World] MPI has not started: not all ranks have initialized it");
  int already = 0, level = 0;
  MPI_Initialized(&already);
  if (already) {
    MPI_Query_thread(&level);
  } else {
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level);
  }
  require<NotSupportedError>(level == MPI_THREAD_MULTIPLE,
                             "[World] MPI must support calls from several threads (MPI_THREAD_MULTIPLE); got level ",
                             level, ".");
  world_->name = "world";
  world_->comm = duplicate_world();
  int rank = 0, size = 0;
  MPI_Comm_rank(world_->comm, &rank);
  MPI_Comm_size(world_->comm, &size);
  world_->member = rank;
  world_->ranks.resize(size);
  std::iota(world_->ranks.begin(), world_->ranks.end(), 0);
  world_->id = channel_id(world_->name, world_->ranks);
  channels_[world_->id] = world_;
  inquiry_ = std::make_unique<MpiInquiry>(duplicate_world(), [this](uint64_t id) -> uint64_t {
    const std::lock_guard lock(mutex_);
    const auto found = channels_.find(id);
    return found == channels_.end() ? 0 : found->second->entered.load();
  });
  if (!already) ::on_exit(at_exit, this);
}

std::shared_ptr<MpiChannel> MpiRuntime::open(const std::string& name, std::span<const int64_t> ranks) {
  auto channel = std::make_shared<MpiChannel>();
  channel->name = name;
  channel->ranks.assign(ranks.begin(), ranks.end());
  channel->member = std::find(ranks.begin(), ranks.end(), rank()) - ranks.begin();
  channel->id = channel_id(name, ranks);
  {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<MpiChannel>& known = channels_[channel->id];
    require<ConfigError>(!known, "[World] a group may be created once; got \"", name, "\" again.");
    known = channel;
  }
  // MPI_Comm_create_group blocks until all have called it, so they synchronize first, with a timeout.
  channel->comm = world_->comm;
  channel->entered = 1;
  MpiExchange meeting(*this, channel, "create group", 0, /*tag=*/1 + static_cast<int>(channel->id % 30000),
                      /*by_world_rank=*/true);
  char token[2] = {};
  for (int64_t member = 0; member < channel->size(); ++member) {
    if (member == channel->member) continue;
    meeting.send(member, &token[0], 1);
    meeting.receive(member, &token[1], 1);
  }
  meeting.wait();

  const Watchdog watchdog(options_.timeout, where(*channel, "create group") + "MPI_Comm_create_group has not returned");
  const std::vector<int> members(ranks.begin(), ranks.end());
  MPI_Group all = MPI_GROUP_NULL, some = MPI_GROUP_NULL;
  MPI_Comm_group(world_->comm, &all);
  MPI_Group_incl(all, static_cast<int>(members.size()), members.data(), &some);
  MPI_Comm comm = MPI_COMM_NULL;
  const int code = MPI_Comm_create_group(world_->comm, some, static_cast<int>(channel->id % 30000), &comm);
  MPI_Group_free(&some);
  MPI_Group_free(&all);
  if (code != MPI_SUCCESS) fail(where(*channel, "create group") + "MPI reports: " + mpi_error_text(code));
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  channel->comm = comm;
  channel->entered = 0;
  return channel;
}

void MpiRuntime::adopt_failure(const std::string& message) {
  const std::lock_guard lock(mutex_);
  if (!failure_) failure_ = message;
}

void MpiRuntime::check_failure() const {
  const std::lock_guard lock(mutex_);
  if (failure_) throw DistributedError(*failure_);
}

void MpiRuntime::fail(const std::string& message) {
  adopt_failure(message);
  inquiry_->report(message);
  throw DistributedError(message);
}

void MpiRuntime::at_exit(int status, void* runtime) {
  auto& self = *static_cast<MpiRuntime*>(runtime);
  try {
    if (status == 0) {
      self.check_failure();
      // A rank that waits for this one in a collective reports it.
      mpi_barrier(self, self.world_, "exit", self.world_->entered++, 2 * self.options_.timeout);
      MPI_Finalize();
      return;
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: rank %d: %s\n", static_cast<int>(self.rank()), error.what());
  }
  std::fflush(nullptr);
  MPI_Abort(MPI_COMM_WORLD, status == 0 ? 1 : status);
}

}  // namespace easydel

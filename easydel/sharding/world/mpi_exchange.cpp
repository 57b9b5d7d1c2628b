#include "easydel/sharding/world/mpi_exchange.h"

#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <thread>

#include "easydel/core/error.h"

namespace easydel {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kServeEvery = std::chrono::milliseconds(5);
constexpr auto kYieldFor = std::chrono::milliseconds(200);  // then sleep between polls
constexpr auto kNap = std::chrono::microseconds(50);

// MPI counts in int; tests make messages short.
int64_t most_bytes() {
  static const int64_t bytes = [] {
    const char* text = std::getenv("EASYDEL_MPI_MESSAGE_BYTES");
    const int64_t given = text == nullptr ? 0 : std::atoll(text);
    return given > 0 ? std::min(given, int64_t{1} << 30) : int64_t{1} << 30;
  }();
  return bytes;
}

// MPI may still write into the memory of an abandoned message.
void abandon(std::vector<at::Tensor> tensors) { new std::vector<at::Tensor>(std::move(tensors)); }

}  // namespace

MpiExchange::MpiExchange(MpiRuntime& runtime, std::shared_ptr<MpiChannel> channel, std::string what, uint64_t number,
                         int tag, bool by_world_rank)
    : runtime_(runtime),
      channel_(std::move(channel)),
      what_(std::move(what)),
      number_(number),
      tag_(tag),
      by_world_rank_(by_world_rank) {
  runtime_.check_failure();
}

MpiExchange::MpiExchange(MpiRuntime& runtime, std::shared_ptr<MpiChannel> channel, std::string what, uint64_t number)
    : MpiExchange(runtime, std::move(channel), std::move(what), number, static_cast<int>(number % 32768)) {}

MpiExchange::~MpiExchange() {
  if (left_ > 0) abandon(std::move(kept_));
}

template <class Start>
void MpiExchange::start(int64_t member, int64_t bytes, bool is_receive, const Start& start) {
  const int peer = static_cast<int>(by_world_rank_ ? channel_->ranks[member] : member);
  for (int64_t at = 0; at < bytes; at += most_bytes()) {
    const int count = static_cast<int>(std::min(most_bytes(), bytes - at));
    MPI_Request request = MPI_REQUEST_NULL;
    const int code = start(at, count, peer, &request);
    if (code != MPI_SUCCESS) runtime_.fail(where(*channel_, what_) + "MPI reports: " + mpi_error_text(code));
    messages_.push_back({member, count, is_receive});
    requests_.push_back(request);
    ++left_;
  }
}

void MpiExchange::send(int64_t member, const void* data, int64_t bytes) {
  start(member, bytes, false, [&](int64_t at, int count, int peer, MPI_Request* request) {
    return MPI_Isend(static_cast<const char*>(data) + at, count, MPI_BYTE, peer, tag_, channel_->comm, request);
  });
}

void MpiExchange::receive(int64_t member, void* data, int64_t bytes) {
  start(member, bytes, true, [&](int64_t at, int count, int peer, MPI_Request* request) {
    return MPI_Irecv(static_cast<char*>(data) + at, count, MPI_BYTE, peer, tag_, channel_->comm, request);
  });
}

bool MpiExchange::test() {
  if (left_ == 0) return true;
  done_.resize(requests_.size());
  statuses_.resize(requests_.size());
  int count = 0;
  const int code =
      MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count, done_.data(), statuses_.data());
  if (code != MPI_SUCCESS || count == MPI_UNDEFINED) {
    int reason = code;
    for (int i = 0; code == MPI_ERR_IN_STATUS && i < count; ++i) {
      if (statuses_[i].MPI_ERROR != MPI_SUCCESS) reason = statuses_[i].MPI_ERROR;
    }
    runtime_.fail(where(*channel_, what_) + "MPI reports: " + mpi_error_text(reason) +
                  ". EASYDEL_DEBUG_COLLECTIVES=1 compares the members' calls.");
  }
  left_ -= count;
  for (int i = 0; i < count; ++i) {
    const Message& message = messages_[done_[i]];
    int bytes = 0;
    if (message.is_receive) MPI_Get_count(&statuses_[i], MPI_BYTE, &bytes);
    if (!message.is_receive || bytes == message.bytes) continue;
    runtime_.fail(concat(where(*channel_, what_), "rank ", channel_->ranks[message.member], " sent ", bytes,
                         " bytes where ", message.bytes,
                         " were expected. EASYDEL_DEBUG_COLLECTIVES=1 compares the members' calls."));
  }
  return left_ == 0;
}

std::vector<int64_t> MpiExchange::late_peers() const {
  std::vector<int64_t> peers;
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    if (requests_[i] != MPI_REQUEST_NULL) peers.push_back(channel_->ranks[messages_[i].member]);
  }
  std::sort(peers.begin(), peers.end());
  peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
  return peers;
}

void MpiExchange::wait(std::chrono::milliseconds limit) {
  for (int i = 0; i < 100; ++i) {
    if (test()) return kept_.clear();
  }
  const MpiWait own{channel_->id, number_, concat(what_, " of group \"", channel_->name, "\""),
                    [this] { return late_peers(); }};
  const auto start = Clock::now();
  auto serve_at = start;
  while (!test()) {
    const auto now = Clock::now();
    if (now >= serve_at) {
      serve_at = now + kServeEvery;
      if (const auto report = runtime_.inquiry().serve(own)) runtime_.adopt_failure(*report);
      runtime_.check_failure();
    }
    if (now - start >= limit) {
      const auto patience =
          std::clamp(runtime_.options().timeout / 4, std::chrono::milliseconds(200), std::chrono::milliseconds(2000));
      std::string culprits = runtime_.inquiry().find_culprits(own, patience);
      if (culprits.empty()) culprits = "all have arrived, but their messages are too slow";
      runtime_.fail(concat(where(*channel_, what_), "no result after ", limit.count() / 1000.0, " s; ", culprits,
                           ". EASYDEL_TIMEOUT sets the limit in seconds."));
    }
    now - start < kYieldFor ? static_cast<void>(::sched_yield()) : std::this_thread::sleep_for(kNap);
  }
  kept_.clear();
}

void mpi_barrier(MpiRuntime& runtime, const std::shared_ptr<MpiChannel>& channel, const std::string& what,
                 uint64_t number, std::chrono::milliseconds limit) {
  const int64_t n = channel->size();
  char tokens[2] = {};
  for (int64_t step = 1; step < n; step *= 2) {
    MpiExchange round(runtime, channel, what, number);
    round.send((channel->member + step) % n, &tokens[0], 1);
    round.receive((channel->member + n - step) % n, &tokens[1], 1);
    round.wait(limit);
  }
}

}  // namespace easydel

// Concurrent messages between the members of a group, with a timeout.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "easydel/sharding/world/mpi_runtime.h"

namespace easydel {

class MpiExchange {
 public:
  // `what` and `number` identify the collective of the channel.
  MpiExchange(MpiRuntime& runtime, std::shared_ptr<MpiChannel> channel, std::string what, uint64_t number, int tag,
              bool by_world_rank = false);
  MpiExchange(MpiRuntime& runtime, std::shared_ptr<MpiChannel> channel, std::string what, uint64_t number);
  ~MpiExchange();
  MpiExchange(const MpiExchange&) = delete;
  MpiExchange& operator=(const MpiExchange&) = delete;

  // Of any length; empty messages are not sent. The memory must stay valid until wait() has returned, or be kept.
  void send(int64_t member, const void* data, int64_t bytes);
  void receive(int64_t member, void* data, int64_t bytes);
  void keep(const at::Tensor& tensor) { kept_.push_back(tensor); }

  void wait() { wait(runtime_.options().timeout); }  // DistributedError
  void wait(std::chrono::milliseconds limit);

 private:
  struct Message {
    int64_t member;
    int bytes;
    bool is_receive;
  };
  template <class Start>
  void start(int64_t member, int64_t bytes, bool is_receive, const Start& start);
  bool test();  // whether all is done
  std::vector<int64_t> late_peers() const;

  MpiRuntime& runtime_;
  const std::shared_ptr<MpiChannel> channel_;
  const std::string what_;
  const uint64_t number_;
  const int tag_;
  const bool by_world_rank_;
  std::vector<Message> messages_;
  std::vector<MPI_Request> requests_;
  std::vector<int> done_;  // of the last poll
  std::vector<MPI_Status> statuses_;
  std::size_t left_ = 0;
  std::vector<at::Tensor> kept_;
};

void mpi_barrier(MpiRuntime& runtime, const std::shared_ptr<MpiChannel>& channel, const std::string& what,
                 uint64_t number, std::chrono::milliseconds limit);

}  // namespace easydel

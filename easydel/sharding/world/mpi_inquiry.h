// Finds late ranks: waiting ranks answer queries of others, so that a timeout can name the one at fault.
#pragma once

#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace easydel {

// A collective that this process waits for.
struct MpiWait {
  uint64_t channel = 0;                         // the id of the group
  uint64_t number = 0;                          // of the group's collectives
  std::string place;                            // "all_reduce of group "fsdp""
  std::function<std::vector<int64_t>()> peers;  // world ranks whose messages are pending
};

class MpiInquiry {
 public:
  using Entered = std::function<uint64_t(uint64_t channel)>;  // number of its collectives that this process has entered

  MpiInquiry(MPI_Comm control, Entered entered);

  // Called periodically by waiting threads. Returns another rank's failure, once there is one.
  std::optional<std::string> serve(const MpiWait& own);

  // Queries the peers of `own`, and those they wait for in turn; serves others meanwhile. "rank 1 has not arrived: it
  // is waiting in barrier of group "tp"; rank 2 does not respond", or empty when all have arrived.
  std::string find_culprits(const MpiWait& own, std::chrono::milliseconds patience);

  void report(const std::string& failure);  // to all other ranks that still respond

 private:
  struct Question;
  struct Answer;
  void answer_questions(const MpiWait& own);
  std::optional<Answer> ask(int64_t rank, Question question, const MpiWait& own, std::chrono::milliseconds patience);

  const MPI_Comm control_;
  const Entered entered_;
  std::mutex mutex_;
  int64_t next_question_ = 0;
};

}  // namespace easydel

// Who is late? Ranks that wait answer questions of others, so that a timeout can name the one at fault.
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
  std::function<std::vector<int64_t>()> peers;  // world ranks whose messages have not gone through
};

class MpiInquiry {
 public:
  using Entered = std::function<uint64_t(uint64_t channel)>;  // how many of its collectives this process has come to

  MpiInquiry(MPI_Comm control, Entered entered);

  // Called now and then by whoever waits. Gives the report of another rank's failure, once there is one.
  std::optional<std::string> serve(const MpiWait& own);

  // Asks the peers of `own`, and those whom they wait for in turn; serves others meanwhile. "rank 1 has not arrived: it
  // waits in barrier of group "tp"; rank 2 does not answer", or empty when all have arrived.
  std::string find_culprits(const MpiWait& own, std::chrono::milliseconds patience);

  void report(const std::string& failure);  // to all other ranks, as far as they listen

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

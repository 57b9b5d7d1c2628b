#include "easydel/sharding/world/mpi_inquiry.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <thread>

#include "easydel/core/error.h"

namespace easydel {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kQuestion = 1, kAnswer = 2, kReport = 3;
constexpr std::size_t kPeers = 16, kPlaceBytes = 200;

template <class T>
bool receive_if_there(MPI_Comm comm, int tag, T& message, int64_t& from) {
  int there = 0;
  MPI_Status status;
  if (MPI_Iprobe(MPI_ANY_SOURCE, tag, comm, &there, &status) != MPI_SUCCESS || !there) return false;
  from = status.MPI_SOURCE;
  return MPI_Recv(&message, sizeof(T), MPI_BYTE, status.MPI_SOURCE, tag, comm, MPI_STATUS_IGNORE) == MPI_SUCCESS;
}

// Small enough to be sent eagerly; a dead rank must not block the sender, so this is not waited for.
void send_and_forget(MPI_Comm comm, int64_t to, int tag, const void* data, std::size_t bytes) {
  auto* copy = new std::string(static_cast<const char*>(data), bytes);  // lives as long as the process
  MPI_Request request = MPI_REQUEST_NULL;
  const int code =
      MPI_Isend(copy->data(), static_cast<int>(bytes), MPI_BYTE, static_cast<int>(to), tag, comm, &request);
  if (code == MPI_SUCCESS) MPI_Request_free(&request);
}

}  // namespace

struct MpiInquiry::Question {
  uint64_t channel, number;  // has the rank reached this collective?
  int64_t id = 0;
};

struct MpiInquiry::Answer {
  int64_t id;
  int64_t arrived;
  uint64_t channel, number;  // what the rank itself waits for, and for whom
  int64_t peer_count;
  int64_t peers[kPeers];
  char place[kPlaceBytes];
};

MpiInquiry::MpiInquiry(MPI_Comm control, Entered entered) : control_(control), entered_(std::move(entered)) {}

void MpiInquiry::answer_questions(const MpiWait& own) {
  Question question{};
  int64_t from = 0;
  while (receive_if_there(control_, kQuestion, question, from)) {
    Answer answer{};
    answer.id = question.id;
    answer.arrived = entered_(question.channel) > question.number;
    std::snprintf(answer.place, sizeof answer.place, "%s", own.place.c_str());
    answer.channel = own.channel;
    answer.number = own.number;
    const std::vector<int64_t> peers = own.peers();
    answer.peer_count = static_cast<int64_t>(std::min(peers.size(), kPeers));
    std::copy_n(peers.begin(), answer.peer_count, answer.peers);
    send_and_forget(control_, from, kAnswer, &answer, sizeof answer);
  }
}

std::optional<std::string> MpiInquiry::serve(const MpiWait& own) {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return std::nullopt;
  answer_questions(own);
  int there = 0;
  MPI_Status status;
  if (MPI_Iprobe(MPI_ANY_SOURCE, kReport, control_, &there, &status) != MPI_SUCCESS || !there) return std::nullopt;
  int bytes = 0;
  MPI_Get_count(&status, MPI_BYTE, &bytes);
  std::string text(bytes, '\0');
  MPI_Recv(text.data(), bytes, MPI_BYTE, status.MPI_SOURCE, kReport, control_, MPI_STATUS_IGNORE);
  return text;
}

std::optional<MpiInquiry::Answer> MpiInquiry::ask(int64_t rank, Question question, const MpiWait& own,
                                                  std::chrono::milliseconds patience) {
  question.id = next_question_++;
  send_and_forget(control_, rank, kQuestion, &question, sizeof question);
  const auto deadline = Clock::now() + patience;
  while (Clock::now() < deadline) {
    Answer answer{};
    int64_t from = 0;
    if (receive_if_there(control_, kAnswer, answer, from) && answer.id == question.id) return answer;
    answer_questions(own);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return std::nullopt;
}

std::string MpiInquiry::find_culprits(const MpiWait& own, std::chrono::milliseconds patience) {
  const std::lock_guard lock(mutex_);
  int self = 0;
  MPI_Comm_rank(control_, &self);
  std::vector<std::pair<int64_t, Question>> suspects;
  std::set<int64_t> known{self};
  const auto suspect = [&](int64_t rank, uint64_t channel, uint64_t number) {
    if (known.insert(rank).second) suspects.push_back({rank, {channel, number}});
  };
  for (const int64_t peer : own.peers()) suspect(peer, own.channel, own.number);
  std::string culprits;
  for (std::size_t i = 0; i < suspects.size() && i < 2 * kPeers; ++i) {
    const auto [rank, question] = suspects[i];
    const auto answer = ask(rank, question, own, patience);
    std::string verdict;
    if (!answer) {
      verdict = " does not respond: it hangs, is computing or has died";
    } else {
      if (!answer->arrived) verdict = concat(" has not arrived: it is waiting in ", answer->place);
      for (int64_t p = 0; p < answer->peer_count; ++p) suspect(answer->peers[p], answer->channel, answer->number);
    }
    if (!verdict.empty()) culprits += concat(culprits.empty() ? "" : "; ", "rank ", rank, verdict);
  }
  return culprits;
}

void MpiInquiry::report(const std::string& failure) {
  int rank = 0, size = 0;
  MPI_Comm_rank(control_, &rank);
  MPI_Comm_size(control_, &size);
  for (int to = 0; to < size; ++to) {
    if (to != rank) send_and_forget(control_, to, kReport, failure.data(), failure.size());
  }
}

}  // namespace easydel

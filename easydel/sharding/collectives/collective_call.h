// Describes a member's collective call, for comparison between members and for errors.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace easydel {

enum class CollectiveKind : uint8_t { AllReduce, AllGather, ReduceScatter, AllToAll, Shift, Broadcast, Barrier };

const char* name_of(CollectiveKind kind);  // "all_reduce"

struct CollectiveCall {
  CollectiveKind kind = CollectiveKind::Barrier;
  at::ScalarType dtype = at::kByte;
  int64_t detail = 0;             // the operation of a reduction, the root of a broadcast
  std::vector<int64_t> counts;    // a shape, or elements for each member: the same for all
  std::vector<int64_t> sends;     // of an all_to_all, elements to each member ...
  std::vector<int64_t> receives;  // ... and from each

  std::string to_string() const;  // "all_reduce(float32 [4, 8], sum)"
  friend bool operator==(const CollectiveCall&, const CollectiveCall&) = default;

  std::vector<int64_t> encode() const;
  static CollectiveCall decode(std::span<const int64_t> numbers);
};

// Whether all calls match; what an all_to_all sends must be what the other side expects.
bool agree(std::span<const CollectiveCall* const> calls);

// "[collectives] members of group ... rank 0 called all_reduce(...), rank 1 broadcast(...)."; equal ones are grouped.
std::string disagreement(const std::string& group, uint64_t number, std::span<const CollectiveCall* const> calls,
                         std::span<const int64_t> ranks);

// "rank 3", "ranks 1, 2 and 5"
std::string describe_ranks(std::span<const int64_t> ranks);

// c10d has no shift: it is an all_to_all with this name.
class CollectiveName {
 public:
  explicit CollectiveName(CollectiveKind kind);
  ~CollectiveName();
  CollectiveName(const CollectiveName&) = delete;
  CollectiveName& operator=(const CollectiveName&) = delete;
  static CollectiveKind current(CollectiveKind otherwise);
};

}  // namespace easydel

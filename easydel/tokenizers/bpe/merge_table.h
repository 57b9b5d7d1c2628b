// The merges of a BPE model: from a pair of ids to the rank and the resulting id of the merge.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

namespace easydel {

struct MergeRule {
  uint32_t rank = UINT32_MAX;  // of no merge
  int32_t id = -1;
};

class MergeTable {
 public:
  void reserve(std::size_t merges) { slots_.assign(std::bit_ceil(2 * merges + 2), {}); }

  // `reserve` must have made room for it. The last one of a pair counts.
  void add(int32_t left, int32_t right, MergeRule rule) {
    std::size_t at = place(key(left, right));
    while (slots_[at].key != kFree && slots_[at].key != key(left, right)) at = (at + 1) & (slots_.size() - 1);
    slots_[at] = {key(left, right), rule};
  }

  MergeRule find(int32_t left, int32_t right) const {
    const uint64_t wanted = key(left, right);
    for (std::size_t at = place(wanted); slots_[at].key != kFree; at = (at + 1) & (slots_.size() - 1)) {
      if (slots_[at].key == wanted) return slots_[at].rule;
    }
    return {};
  }

 private:
  static constexpr uint64_t kFree = UINT64_MAX;
  struct Slot {
    uint64_t key = kFree;
    MergeRule rule;
  };
  static uint64_t key(int32_t left, int32_t right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
  }
  std::size_t place(uint64_t key) const {
    key *= 0x9E3779B97F4A7C15u;
    return (key ^ key >> 32) & (slots_.size() - 1);
  }

  std::vector<Slot> slots_ = std::vector<Slot>(2);
};

}  // namespace easydel

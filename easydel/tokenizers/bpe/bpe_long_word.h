// A word of many symbols with an index of its pairs, so that the cost of a merge is proportional to what it changes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace easydel {

class BpeLongWord {
 public:
  explicit BpeLongWord(std::span<const uint32_t> symbols) : places_(symbols.size()) {
    const auto size = static_cast<uint32_t>(symbols.size());
    for (uint32_t i = 0; i < size; ++i) {
      places_[i].symbol = symbols[i];
      places_[i].before = i == 0 ? kNone : i - 1;
      places_[i].after = i + 1 == size ? kNone : i + 1;
    }
    for (uint32_t i = 0; i + 1 < size; ++i) enlist(i);
  }

  // From left to right, as if it went over all symbols. Calls around(before, after) for every merged pair, with the
  // symbols on both sides, kNone for none; the one before may itself be new.
  template <class Around>
  void merge(uint32_t left, uint32_t right, uint32_t merged, const Around& around) {
    const auto first = first_.find(pair_of(left, right));
    if (first == first_.end()) return;
    found_.clear();
    for (uint32_t i = first->second; i != kNone; i = places_[i].next_alike) found_.push_back(i);
    std::sort(found_.begin(), found_.end());
    for (const uint32_t i : found_) {
      if (places_[i].symbol != left) continue;  // merged just now, as the right half of an overlap
      const uint32_t gone = places_[i].after;
      if (gone == kNone || places_[gone].symbol != right) continue;
      const uint32_t before = places_[i].before, after = places_[gone].after;
      delist(i);
      if (before != kNone) delist(before);
      if (after != kNone) delist(gone);
      places_[i].symbol = merged;
      places_[i].after = after;
      places_[gone].symbol = kNone;
      if (before != kNone) enlist(before);
      if (after != kNone) {
        places_[after].before = i;
        enlist(i);
      }
      around(before == kNone ? kNone : places_[before].symbol, after == kNone ? kNone : places_[after].symbol);
    }
  }

  static constexpr uint32_t kNone = UINT32_MAX;

 private:
  struct Place {
    uint32_t symbol = kNone;
    uint32_t before = kNone, after = kNone;               // its neighbours
    uint32_t previous_alike = kNone, next_alike = kNone;  // other occurrences of the same pair
  };
  static uint64_t pair_of(uint32_t a, uint32_t b) { return uint64_t{a} << 32 | b; }
  uint64_t pair_at(uint32_t i) const { return pair_of(places_[i].symbol, places_[places_[i].after].symbol); }

  void enlist(uint32_t i) {
    const auto [first, is_new] = first_.try_emplace(pair_at(i), i);
    places_[i].previous_alike = kNone;
    places_[i].next_alike = is_new ? kNone : first->second;
    if (!is_new) places_[first->second].previous_alike = i;
    first->second = i;
  }
  void delist(uint32_t i) {
    const Place& place = places_[i];
    if (place.next_alike != kNone) places_[place.next_alike].previous_alike = place.previous_alike;
    if (place.previous_alike != kNone) {
      places_[place.previous_alike].next_alike = place.next_alike;
      return;
    }
    const auto first = first_.find(pair_at(i));
    if (place.next_alike == kNone) {
      first_.erase(first);
    } else {
      first->second = place.next_alike;
    }
  }

  std::vector<Place> places_;
  std::unordered_map<uint64_t, uint32_t> first_;  // pair to the first of its positions
  std::vector<uint32_t> found_;
};

}  // namespace easydel

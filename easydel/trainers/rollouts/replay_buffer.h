// Groups of completions whose rewards told them apart, kept to be trained on again in the place of groups whose rewards
// are all the same.
#pragma once

#include <cstdint>
#include <vector>

#include "easydel/core/random.h"
#include "easydel/trainers/run/batch.h"

namespace easydel {

class Json;

class ReplayBuffer {
 public:
  struct Group {
    double score = 0;
    std::vector<BatchRow> rows;
  };

  // Keeps the `size` groups of the highest scores; of equal ones the earlier stays.
  void add(Group group, int64_t size);
  // Groups drawn in proportion to their scores: different ones, as long as there are enough. None if it is empty.
  std::vector<const Group*> draw(int64_t count, const RandomKey& key) const;
  bool empty() const { return groups_.empty(); }

  Json to_json() const;
  void restore(const Json& json);

 private:
  std::vector<Group> groups_;
};

}  // namespace easydel

#include "easydel/trainers/rollouts/replay_buffer.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "easydel/core/json/json.h"
#include "easydel/trainers/run/row_json.h"

namespace easydel {

void ReplayBuffer::add(Group group, int64_t size) {
  if (static_cast<int64_t>(groups_.size()) < size) return groups_.push_back(std::move(group));
  const auto worst = std::min_element(groups_.begin(), groups_.end(),
                                      [](const Group& a, const Group& b) { return a.score < b.score; });
  if (worst != groups_.end() && group.score > worst->score) *worst = std::move(group);
}

std::vector<const ReplayBuffer::Group*> ReplayBuffer::draw(int64_t count, const RandomKey& key) const {
  std::vector<const Group*> drawn;
  if (groups_.empty()) return drawn;
  const bool repeats = count > static_cast<int64_t>(groups_.size());
  std::vector<double> weights;
  for (const Group& group : groups_) weights.push_back(group.score);
  for (int64_t i = 0; i < count; ++i) {
    double total = 0;
    for (const double weight : weights) total += weight;
    double at = static_cast<double>(key.fold(static_cast<uint64_t>(i)).bits() >> 11) * 0x1p-53 * total;
    std::size_t chosen = 0;
    for (std::size_t g = 0; g < weights.size(); ++g) {
      if (weights[g] <= 0) continue;
      chosen = g;
      if ((at -= weights[g]) < 0) break;
    }
    drawn.push_back(&groups_[chosen]);
    if (!repeats) weights[chosen] = 0;
  }
  return drawn;
}

Json ReplayBuffer::to_json() const {
  Json list = Json::array();
  for (const Group& group : groups_) {
    Json rows = Json::array();
    for (const BatchRow& row : group.rows) rows.push_back(row_to_json(row));
    list.push_back(Json::object({{"score", group.score}, {"rows", std::move(rows)}}));
  }
  return list;
}

void ReplayBuffer::restore(const Json& json) {
  groups_.clear();
  for (const Json& given : json.as_array()) {
    Group group{.score = given.at("score").as_double(), .rows = {}};
    for (const Json& row : given.at("rows").as_array()) group.rows.push_back(row_from_json(row));
    groups_.push_back(std::move(group));
  }
}

}  // namespace easydel

// Special tokens of one kind, as `eos_token_id` gives them: none, one, or several.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <vector>

namespace easydel {

class TokenIds {
 public:
  TokenIds() = default;
  TokenIds(int64_t id) : ids_{id} {}
  TokenIds(std::initializer_list<int64_t> ids) : ids_(ids) {}
  explicit TokenIds(std::vector<int64_t> ids) : ids_(std::move(ids)) {}

  bool empty() const { return ids_.empty(); }
  std::size_t size() const { return ids_.size(); }
  bool contains(int64_t id) const { return std::find(ids_.begin(), ids_.end(), id) != ids_.end(); }
  auto begin() const { return ids_.begin(); }
  auto end() const { return ids_.end(); }
  const std::vector<int64_t>& values() const { return ids_; }

  friend bool operator==(const TokenIds&, const TokenIds&) = default;

 private:
  std::vector<int64_t> ids_;
};

}  // namespace easydel

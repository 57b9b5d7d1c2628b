// A byte trie: finds the keys that a text begins with.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace easydel {

class ByteTrie {
 public:
  using Entry = std::pair<std::string_view, int32_t>;

  ByteTrie() = default;
  explicit ByteTrie(std::vector<Entry> entries);  // of equal keys the last counts; empty keys are ignored

  bool empty() const { return nodes_.empty(); }
  bool may_start_with(char byte) const { return root_[static_cast<unsigned char>(byte)] != 0; }

  // Calls `found(length, value)` for every key that `text` begins with, the shortest first.
  template <class Found>
  void prefixes(std::string_view text, const Found& found) const {
    if (text.empty()) return;
    uint32_t node = root_[static_cast<unsigned char>(text[0])];
    for (std::size_t depth = 1; node != 0; ++depth) {
      const Node& here = nodes_[node];
      if (here.value >= 0) found(depth, here.value);
      if (depth >= text.size() || here.children == 0) return;
      const void* label = std::memchr(labels_.data() + here.first_child, text[depth], here.children);
      if (!label) return;
      node = static_cast<uint32_t>(static_cast<const char*>(label) - labels_.data());
    }
  }

 private:
  struct Node {
    uint32_t first_child = 0;
    uint16_t children = 0;
    int32_t value = -1;
  };
  std::array<uint32_t, 256> root_{};
  std::vector<Node> nodes_;  // the first one is the root
  std::string labels_;       // the byte that leads to each node
};

}  // namespace easydel

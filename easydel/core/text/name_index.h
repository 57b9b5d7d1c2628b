// The index of each of many names, without owning the names: one allocation for all of them, and robust against names
// chosen to collide.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

namespace easydel {

class NameIndex {
 public:
  NameIndex() = default;
  // The names of items, which must not move while this is in use: NameIndex(infos, &TensorInfo::name).
  template <class Items, class NameOf = std::identity>
  explicit NameIndex(const Items& items, NameOf name_of = {}) {
    sorted_.reserve(items.size());
    for (const auto& item : items) sorted_.push_back({std::invoke(name_of, item), sorted_.size()});
    std::sort(sorted_.begin(), sorted_.end(), is_before);
  }

  std::optional<std::size_t> find(std::string_view name) const {  // any one of them, when there are several
    const auto found = std::lower_bound(sorted_.begin(), sorted_.end(), Entry{name, 0}, is_before);
    return found == sorted_.end() || found->name != name ? std::nullopt : std::optional(found->place);
  }

  std::optional<std::string_view> find_repeated() const {
    const auto is_same = [](const Entry& a, const Entry& b) { return a.name == b.name; };
    const auto found = std::adjacent_find(sorted_.begin(), sorted_.end(), is_same);
    return found == sorted_.end() ? std::nullopt : std::optional(found->name);
  }

 private:
  struct Entry {
    std::string_view name;
    std::size_t place;
  };
  // Lengths first: they are often all that differs.
  static bool is_before(const Entry& a, const Entry& b) {
    return a.name.size() != b.name.size() ? a.name.size() < b.name.size() : a.name < b.name;
  }
  std::vector<Entry> sorted_;
};

}  // namespace easydel

#include "easydel/layers/tensor_map.h"

#include "easydel/core/error.h"

namespace easydel {

TensorMap::TensorMap(std::initializer_list<Entry> entries) {
  for (const auto& [path, tensor] : entries) set(path, tensor);
}

void TensorMap::set(std::string path, at::Tensor tensor) {
  const auto [found, added] = index_.try_emplace(path, entries_.size());
  if (added) {
    entries_.emplace_back(std::move(path), std::move(tensor));
  } else {
    entries_[found->second].second = std::move(tensor);
  }
}

const at::Tensor* TensorMap::find(std::string_view path) const {
  const auto found = index_.find(path);
  return found == index_.end() ? nullptr : &entries_[found->second].second;
}

const at::Tensor& TensorMap::at(std::string_view path) const& {
  if (const at::Tensor* tensor = find(path)) return *tensor;
  const std::string near = nearest_name(std::string(path), paths());
  fail<ConfigError>("[TensorMap] no tensor \"", path, "\" among ", size(), ".",
                    near.empty() ? "" : concat(" Did you mean \"", near, "\"?"));
}

std::vector<std::string> TensorMap::paths() const {
  std::vector<std::string> paths;
  for (const Entry& entry : entries_) paths.push_back(entry.first);
  return paths;
}

int64_t TensorMap::numel() const {
  int64_t sum = 0;
  for (const Entry& entry : entries_) sum += entry.second.numel();
  return sum;
}

int64_t TensorMap::nbytes() const {
  int64_t sum = 0;
  for (const Entry& entry : entries_) sum += static_cast<int64_t>(entry.second.nbytes());
  return sum;
}

}  // namespace easydel

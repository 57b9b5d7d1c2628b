// Tensors by path, in order: the parameters and the other state of a module.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace easydel {

// Copies share the tensors. Paths keep the order in which they were first set.
class TensorMap {
 public:
  using Entry = std::pair<std::string, at::Tensor>;

  TensorMap() = default;
  TensorMap(std::initializer_list<Entry> entries);

  void set(std::string path, at::Tensor tensor);
  const at::Tensor* find(std::string_view path) const;  // null when absent
  const at::Tensor& at(std::string_view path) const&;   // ConfigError when absent, with the nearest path
  at::Tensor at(std::string_view path) const&& { return at(path); }
  bool contains(std::string_view path) const { return find(path) != nullptr; }
  std::vector<std::string> paths() const;

  std::size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }
  int64_t numel() const;
  int64_t nbytes() const;

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view path) const { return std::hash<std::string_view>{}(path); }
  };
  std::vector<Entry> entries_;
  std::unordered_map<std::string, std::size_t, Hash, std::equal_to<>> index_;
};

}  // namespace easydel

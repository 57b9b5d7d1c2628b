// Low-rank adapters of single requests: each changes the rows of a step that belong to its requests, and no others.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace easydel {
class BaseModule;
class Linear;
}  // namespace easydel

namespace easydel::serve {

struct StepInputs;

// An adapter on one map: row_factor * y + B A x, with the parts that this rank computes with.
struct AdapterFactors {
  at::Tensor a, b_t;      // [r, in], [r, out]; b_t has the scaling in it, and of DoRA the row factor
  at::Tensor row_factor;  // [out], of DoRA; else undefined
};
using ServedAdapter = std::unordered_map<const Linear*, AdapterFactors>;

// Whole tensors of an adapter's files, with the map that they are for.
struct AdapterWeights {
  const Linear* linear = nullptr;
  at::Tensor a, b, magnitude;  // magnitude of DoRA alone
  double scaling = 1;
};

// The adapters of one engine. Several tables may be made for the same model: what they put on its maps is the same, and
// reads which adapters count from the calling thread's AdapterScope. Without one the maps are plain.
class AdapterTable {
 public:
  explicit AdapterTable(BaseModule& model);

  // peft's files. NotSupportedError names what only a merged model can have: an adapter of the embeddings, weights in
  // modules_to_save, PiSSA and OLoRA; FormatError and ShapeError as load_adapter of a model. Changes nothing, and may
  // be called on any thread.
  std::vector<AdapterWeights> read(const std::filesystem::path& directory) const;
  // What this rank computes with. On a mesh all ranks call this together.
  ServedAdapter place(const std::vector<AdapterWeights>& weights) const;

  int64_t add(ServedAdapter adapter);  // its index: the first that is free
  void remove(int64_t index);
  const ServedAdapter* find(int64_t index) const;

 private:
  const BaseModule& model_;
  std::vector<std::unique_ptr<const ServedAdapter>> adapters_;
};

// During its lifetime, forward passes of this thread are of this step. Rows are the step's tokens, or those of them
// whose logits are wanted.
class AdapterScope {
 public:
  AdapterScope(const AdapterTable& table, const StepInputs& inputs);
  ~AdapterScope();
  AdapterScope(const AdapterScope&) = delete;
  AdapterScope& operator=(const AdapterScope&) = delete;

  struct Rows {
    const ServedAdapter* adapter = nullptr;
    int64_t begin = 0, end = 0;
  };
  const std::vector<Rows>& rows_of(int64_t count) const;
  bool concerns(const Linear& linear) const;
  // [count, sum of widths]: where a row meets a column that is not its own. Entry i of rows_of(count) has the next
  // widths[i] columns.
  const at::Tensor& foreign_columns(int64_t count, const std::vector<int64_t>& widths, at::Device device) const;

 private:
  int64_t tokens_ = 0, places_ = 0;
  std::vector<Rows> of_tokens_, of_places_;  // in order, without those that have no adapter
  mutable std::map<std::pair<int64_t, std::vector<int64_t>>, at::Tensor> foreign_;
  const AdapterScope* before_ = nullptr;
};

// Adds to y [n, out], in place, what the adapters of its rows make of x [n, in]: one after the other; or in one product
// of all, for devices where starting many small ones takes longer.
void adapt_in_turn(const AdapterScope& scope, const Linear& linear, const at::Tensor& x, const at::Tensor& y);
void adapt_together(const AdapterScope& scope, const Linear& linear, const at::Tensor& x, const at::Tensor& y);

}  // namespace easydel::serve

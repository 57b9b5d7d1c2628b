// A table of vectors by token or position.
#pragma once

#include "easydel/layers/module.h"

namespace easydel {

// A table that is kept as codes and scales.
class PackedTable {
 public:
  virtual ~PackedTable() = default;
  // [..., features] for places [...] among the rows that this rank computes with. No gradient flows.
  virtual at::Tensor rows(const at::Tensor& places, DType dtype) const = 0;
  virtual int64_t first_row() const = 0;
  virtual int64_t row_count() const = 0;
};

// What stands beside a table and changes what is looked up. Its weights are children of the Embedding.
class EmbeddingAdapter {
 public:
  virtual ~EmbeddingAdapter() = default;
  // From ids [...] and what the table has for them, [..., features], whole on every rank.
  virtual at::Tensor operator()(const at::Tensor& ids, const at::Tensor& found) const = 0;
};

class Embedding : public Module {
 public:
  Embedding(Dim count, Dim features, double init_stddev = 0.02);

  // ids [...] of any integer type; the result [..., features] is in dtype(). ShapeError on an id outside of the table
  // where that can be seen without waiting for a device.
  at::Tensor operator()(const at::Tensor& ids) const;

  const std::shared_ptr<Parameter>& weight() const { return weight_; }  // null when it is packed
  const Dim& count_dim() const { return count_; }
  const Dim& features_dim() const { return features_; }
  // With null it is a plain table again. As for a Linear, whoever packs puts the codes in the place of the weight.
  void set_packed(std::shared_ptr<const PackedTable> packed, std::shared_ptr<Parameter> dense = nullptr);
  const std::shared_ptr<const PackedTable>& packed() const { return packed_; }
  void set_adapter(std::shared_ptr<const EmbeddingAdapter> adapter) { adapter_ = std::move(adapter); }
  const std::shared_ptr<const EmbeddingAdapter>& adapter() const { return adapter_; }
  std::string extra_repr() const override;

 private:
  at::Tensor look_up(const at::Tensor& index) const;

  Dim count_, features_;
  std::shared_ptr<Parameter> weight_;
  std::shared_ptr<const PackedTable> packed_;
  std::shared_ptr<const EmbeddingAdapter> adapter_;
};

}  // namespace easydel

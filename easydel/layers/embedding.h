// A table of vectors by token or position.
#pragma once

#include <optional>

#include "easydel/layers/module.h"

namespace easydel {

// A quantized table of codes and scales.
class PackedTable {
 public:
  virtual ~PackedTable() = default;
  // [..., features] for indices [...] into the rows that this rank computes with. Not differentiable.
  virtual at::Tensor rows(const at::Tensor& places, DType dtype) const = 0;
  virtual int64_t first_row() const = 0;
  virtual int64_t row_count() const = 0;
};

// An adapter that changes the result of a lookup. Its weights are children of the Embedding.
class EmbeddingAdapter {
 public:
  virtual ~EmbeddingAdapter() = default;
  // From ids [...] and the table's vectors for them, [..., features], replicated.
  virtual at::Tensor operator()(const at::Tensor& ids, const at::Tensor& found) const = 0;
};

class Embedding : public Module {
 public:
  Embedding(Dim count, Dim features, double init_stddev = 0.02);

  // ids [...] of any integer type; the result [..., features] has dtype(). ShapeError on an id out of range, if that
  // can be checked without synchronizing.
  at::Tensor operator()(const at::Tensor& ids) const;

  const std::shared_ptr<Parameter>& weight() const { return weight_; }  // null when packed
  const Dim& count_dim() const { return count_; }
  const Dim& features_dim() const { return features_; }
  // The row that stands for padding gets no gradient from lookups, as with torch's padding_idx.
  void set_padding(std::optional<int64_t> id) { padding_ = id; }
  // Uses another module's table from now on.
  void tie_weight(const std::shared_ptr<Parameter>& weight);
  // Null restores a plain table. As for a Linear, whoever packs replaces the weight by the codes.
  void set_packed(std::shared_ptr<const PackedTable> packed, std::shared_ptr<Parameter> dense = nullptr);
  const std::shared_ptr<const PackedTable>& packed() const { return packed_; }
  void set_adapter(std::shared_ptr<const EmbeddingAdapter> adapter) { adapter_ = std::move(adapter); }
  const std::shared_ptr<const EmbeddingAdapter>& adapter() const { return adapter_; }
  std::string extra_repr() const override;

 private:
  at::Tensor look_up(const at::Tensor& index) const;

  Dim count_, features_;
  std::optional<int64_t> padding_;
  std::shared_ptr<Parameter> weight_;
  std::shared_ptr<const PackedTable> packed_;
  std::shared_ptr<const EmbeddingAdapter> adapter_;
};

}  // namespace easydel

// A linear map. The weight is stored as the checkpoint stores it, and cast to the input's dtype where it is used.
#pragma once

#include <optional>

#include "easydel/layers/module.h"
#include "easydel/operations/attention/decode_layer.h"
#include "easydel/operations/linear/linear.h"
#include "easydel/operations/quantized/packed_product.h"

namespace easydel {

struct LinearOptions {
  bool bias = false;
  bool transposed = false;  // stored as [in, out], as gpt2's Conv1D does
  double init_stddev = 0.02;
  std::string name = {};  // what checkpoint policies know the result as: "attn_query"
};

// A matrix that is kept as codes and scales.
class PackedWeight {
 public:
  virtual ~PackedWeight() = default;
  // What a dense weight would give this rank for x [..., in]. The gradient of x flows; codes have none.
  virtual at::Tensor multiply(const at::Tensor& x, std::string_view name) const = 0;
  virtual at::Tensor dequantize(DType dtype) const = 0;  // the part [out, in] that this rank computes with
  // As the CPU's kernels read it, until the weight changes. Null: it is on another device, in parts, or of another
  // kind.
  virtual const operations::PackedCodes* codes() const { return nullptr; }
};

// What stands beside a linear map and changes its result. Its weights are children of the Linear.
class LinearAdapter {
 public:
  virtual ~LinearAdapter() = default;
  // From x and the map's own y, which has no bias yet; on a mesh, before the terms of several ranks are summed.
  virtual at::Tensor operator()(const at::Tensor& x, const at::Tensor& y) const = 0;
  // The matrix [out, in] that does the same alone, from the one that the rank computes with; gradients flow.
  virtual at::Tensor merged(const at::Tensor& matrix) const = 0;
};

class Linear : public Module {
 public:
  Linear(Dim in, Dim out, LinearOptions options = {});

  // On a mesh: a rank's part of the output features, of a whole x; or the whole result, of its part of the input
  // features. Whoever calls several with the same x sums their gradients once, with
  // collectives::identity_forward_sum_backward.
  at::Tensor operator()(const at::Tensor& x) const;

  // As one token is multiplied with it on the CPU; none where something stands beside it or it lies elsewhere.
  std::optional<operations::DecodeMap> decode_map() const;

  // Several of the same x, which take less time together when x is the one new token of a sequence.
  static std::vector<at::Tensor> apply_all(const at::Tensor& x, const std::vector<const Linear*>& maps);

  const std::shared_ptr<Parameter>& weight() const { return weight_; }  // null when it is packed
  const std::shared_ptr<Parameter>& bias() const { return bias_; }      // null without one
  int64_t in_features() const { return in_; }
  int64_t out_features() const { return out_; }
  // Uses another module's weight from now on: an embedding's, for the language model head.
  void tie_weight(const std::shared_ptr<Parameter>& weight);

  // With null it is a plain map again. Packing takes the dense weight away: whoever packs puts the parameters of the
  // codes in its place, and whoever unpacks a dense weight.
  void set_packed(std::shared_ptr<const PackedWeight> packed, std::shared_ptr<Parameter> dense = nullptr);
  const std::shared_ptr<const PackedWeight>& packed() const { return packed_; }
  void set_adapter(std::shared_ptr<const LinearAdapter> adapter) { adapter_ = std::move(adapter); }
  const std::shared_ptr<const LinearAdapter>& adapter() const { return adapter_; }
  bool is_plain() const { return !packed_ && !adapter_; }
  const LinearOptions& options() const { return options_; }
  const Dim& in_dim() const { return in_dim_; }
  const Dim& out_dim() const { return out_dim_; }
  // The dense matrix [out, in] that this rank computes with: gathered, dequantized, cast, and with the adapter in it.
  at::Tensor matrix(DType dtype) const;

  double own_flops_per_token(double) const override {
    return 2.0 * static_cast<double>(in_) * static_cast<double>(out_);
  }
  std::string type_name() const override { return options_.transposed ? "Conv1D" : "Linear"; }
  std::string extra_repr() const override;

 private:
  operations::LinearMap map() const;

  // The result without a bias, before terms are summed; of an adapted map too.
  at::Tensor multiply(const at::Tensor& x) const;

  LinearOptions options_;
  Dim in_dim_, out_dim_;  // over the axes of the first, each rank has a term of the result
  int64_t in_, out_;
  std::shared_ptr<Parameter> weight_, bias_;
  std::shared_ptr<const PackedWeight> packed_;
  std::shared_ptr<const LinearAdapter> adapter_;
};

}  // namespace easydel

// A linear map. The weight is stored as in the checkpoint, and cast to the input's dtype on use.
#pragma once

#include <optional>

#include "easydel/layers/module.h"
#include "easydel/operations/attention/decode_layer.h"
#include "easydel/operations/linear/around_products.h"
#include "easydel/operations/linear/linear.h"
#include "easydel/operations/linear/trained.h"
#include "easydel/operations/quantized/packed_product.h"

namespace easydel {

struct LinearOptions {
  bool bias = false;
  bool transposed = false;  // stored as [in, out], as gpt2's Conv1D does
  double init_stddev = 0.02;
  std::string name = {};  // of the result, for checkpoint policies: "attn_query"
};

// A quantized matrix of codes and scales.
class PackedWeight {
 public:
  virtual ~PackedWeight() = default;
  // The result of the equivalent dense weight on this rank for x [..., in]. Differentiable in x; codes have no
  // gradient.
  virtual at::Tensor multiply(const at::Tensor& x, std::string_view name) const = 0;
  virtual at::Tensor dequantize(DType dtype) const = 0;  // the part [out, in] that this rank computes with
  // For kernels that read codes, valid until the weight changes. Null: sharded, or in another format.
  virtual const operations::PackedCodes* codes() const { return nullptr; }
};

// An adapter that changes the result of a linear map. Its weights are children of the Linear.
class LinearAdapter {
 public:
  virtual ~LinearAdapter() = default;
  // From x and the map's own y, without bias; on a mesh, before the terms of several ranks are summed.
  virtual at::Tensor operator()(const at::Tensor& x, const at::Tensor& y) const = 0;
  // The merged matrix [out, in], from the one that the rank computes with; differentiable.
  virtual at::Tensor merged(const at::Tensor& matrix) const = 0;
  // False: it would change nothing now, and the map is computed as if there were none.
  virtual bool is_active() const { return true; }
};

class Linear : public Module {
 public:
  Linear(Dim in, Dim out, LinearOptions options = {});

  // On a mesh: a rank's part of the output features from the full x; or the full result from its part of the input
  // features. Whoever calls several with the same x sums their gradients once, with
  // collectives::identity_forward_sum_backward.
  at::Tensor operator()(const at::Tensor& x) const;

  // For the product with one token on the CPU; nullopt with an active adapter or on another device.
  std::optional<operations::DecodeMap> decode_map() const;

  // Several maps of the same x, which is faster when x is the one new token of a sequence.
  static std::vector<at::Tensor> apply_all(const at::Tensor& x, const std::vector<const Linear*>& maps);
  // The same with what surrounds them, where one launch on a GPU does all of it; else nullopt.
  static std::optional<std::vector<at::Tensor>> apply_around(const at::Tensor& x,
                                                             const std::vector<const Linear*>& maps,
                                                             const operations::AroundProducts& around);
  // With gradients: of around.norm of x, and of act(gate) * up, where a GPU computes them together; else nullopt.
  static std::optional<operations::NormedLinears> apply_normed(const at::Tensor& x,
                                                               const std::vector<const Linear*>& maps,
                                                               const operations::AroundProducts& around);
  std::optional<at::Tensor> apply_gated(const std::vector<at::Tensor>& gated, const operations::Activation& act) const;

  const std::shared_ptr<Parameter>& weight() const { return weight_; }  // null when packed
  const std::shared_ptr<Parameter>& bias() const { return bias_; }      // null without one
  int64_t in_features() const { return in_; }
  int64_t out_features() const { return out_; }
  // Uses another module's weight from now on: an embedding's, for the language model head.
  void tie_weight(const std::shared_ptr<Parameter>& weight);

  // Null restores a plain map. Packing removes the dense weight: whoever packs replaces it by the parameters of the
  // codes, and whoever unpacks by a dense weight.
  void set_packed(std::shared_ptr<const PackedWeight> packed, std::shared_ptr<Parameter> dense = nullptr);
  const std::shared_ptr<const PackedWeight>& packed() const { return packed_; }
  void set_adapter(std::shared_ptr<const LinearAdapter> adapter) { adapter_ = std::move(adapter); }
  const std::shared_ptr<const LinearAdapter>& adapter() const { return adapter_; }
  bool is_adapted() const { return adapter_ && adapter_->is_active(); }
  bool is_plain() const { return !packed_ && !is_adapted(); }
  const LinearOptions& options() const { return options_; }
  const Dim& in_dim() const { return in_dim_; }
  const Dim& out_dim() const { return out_dim_; }
  // The dense matrix [out, in] that this rank computes with: gathered, dequantized, cast, and with the adapter merged.
  at::Tensor matrix(DType dtype) const;

  double own_flops_per_token(double) const override {
    return 2.0 * static_cast<double>(in_) * static_cast<double>(out_);
  }
  std::string type_name() const override { return options_.transposed ? "Conv1D" : "Linear"; }
  std::string extra_repr() const override;

 private:
  operations::LinearMap map() const;
  // Of maps that are plain, and whose results are whole; else empty.
  static std::vector<operations::LinearMap> plain_maps(const std::vector<const Linear*>& maps);

  // The result without bias, before terms are summed; including the adapter.
  at::Tensor multiply(const at::Tensor& x) const;

  LinearOptions options_;
  Dim in_dim_, out_dim_;  // over the axes of the first, each rank has a term of the result
  int64_t in_, out_;
  std::shared_ptr<Parameter> weight_, bias_;
  std::shared_ptr<const PackedWeight> packed_;
  std::shared_ptr<const LinearAdapter> adapter_;
};

}  // namespace easydel

// What layers that carry a state from token to token have in common, and their convolution.
#pragma once

#include <vector>

#include "easydel/layers/forward_context.h"
#include "easydel/layers/linear.h"

namespace easydel {

// Letters: B batch, T tokens, D hidden. Takes the place of attention in a layer.
class RecurrentMixer : public Module {
 public:
  virtual at::Tensor operator()(const at::Tensor& x_BTD, const ForwardContext& ctx) const = 0;
  int64_t layer_idx() const { return layer_idx_; }

 protected:
  explicit RecurrentMixer(int64_t layer_idx) : layer_idx_(layer_idx) {}

  // The tokens that the recurrence runs over: all of a row, also where ranks share it.
  struct Rows {
    at::Tensor x;                    // [B, T, D], zero where there is padding
    at::Tensor keep;                 // [B, T, 1] bool, false: padding; undefined: there is none
    at::Tensor runs;                 // [B, T] of packed documents; undefined: one
    std::vector<at::Tensor> states;  // after the tokens before; empty: there were none
    const at::Tensor& state(std::size_t i) const;
  };
  // NotSupportedError for masks that a state cannot follow, and for caches in pages.
  Rows rows(const at::Tensor& x_BTD, const ForwardContext& ctx) const;
  static at::Tensor without_padding(const at::Tensor& x, const at::Tensor& keep);
  void store(const ForwardContext& ctx, const std::vector<at::Tensor>& states) const;  // with a cache
  at::Tensor own_tokens(const at::Tensor& y, const ForwardContext& ctx, int64_t tokens) const;

  // As it is computed with: the whole on every rank, or the part of a dimension with an axis.
  static at::Tensor gathered(const std::shared_ptr<Parameter>& parameter);

 private:
  int64_t layer_idx_;
};

// A convolution of each channel over its last values: weight [C, 1, K].
class CausalConv1d : public Module {
 public:
  CausalConv1d(const Dim& channels, int64_t taps, bool bias);
  // x [B, T, C] with what preceded it; see operations::causal_conv. `channels`: those of a weight that every rank has,
  // where x has only some of them; ranks of the axes have the others. None: all.
  at::Tensor operator()(const at::Tensor& x, const at::Tensor& before, const at::Tensor& runs,
                        const Intervals& channels = {}, const AxisNames& axes = {}) const;
  int64_t taps() const { return taps_; }
  double own_flops_per_token(double) const override { return 2.0 * static_cast<double>(channels_ * taps_); }
  std::string type_name() const override { return "Conv1d"; }
  std::string extra_repr() const override;

 private:
  int64_t channels_, taps_;
  std::shared_ptr<Parameter> weight_, bias_;
};

}  // namespace easydel

#include "easydel/operations/attention/blockwise.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

#include <limits>

#include "easydel/core/dtype.h"
#include "easydel/operations/attention/mechanisms.h"
#include "easydel/operations/checkpoint.h"
#include "easydel/operations/kernels/cpu/rows.h"

namespace easydel::operations {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct SavedOptions : torch::CustomClassHolder {
  AttentionOptions options;
};

struct Blockwise : torch::autograd::Function<Blockwise> {
  static Tensor forward(AutogradContext* ctx, const Tensor& q, const Tensor& k, const Tensor& v,
                        const std::optional<Tensor>& sinks, const std::optional<Tensor>& bias,
                        const AttentionOptions& options) {
    const TensorList made = keep_dots("attn_output", [&]() -> TensorList {
      auto result = blockwise::forward(q, k, v, options);
      return {result.out, result.lse};
    });
    ctx->save_for_backward({q, k, v, sinks.value_or(Tensor()), made[0], made[1], bias.value_or(Tensor())});
    ctx->saved_data["bias_grad"] = bias && bias->requires_grad();
    auto saved = c10::make_intrusive<SavedOptions>();
    saved->options = options;
    saved->options.sinks.reset();  // saved as variables
    saved->options.bias.reset();
    ctx->saved_data["options"] = c10::IValue::make_capsule(saved);
    return made[0];
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    kernels::require_first_derivative("blockwise attention");
    const auto saved = ctx->get_saved_variables();
    AttentionOptions options =
        c10::static_intrusive_pointer_cast<SavedOptions>(ctx->saved_data["options"].toCapsule())->options;
    options.sinks = saved[3];
    options.bias = saved[6];
    const bool bias_grad = ctx->saved_data["bias_grad"].toBool();
    const blockwise::Forward forward{saved[4], saved[5]};
    blockwise::Backward d = blockwise::backward(saved[0], saved[1], saved[2], options, forward, grads[0], bias_grad);
    const auto like = [](const Tensor& grad, const Tensor& input) {
      return grad.defined() && input.defined() ? grad.to(input.scalar_type()) : Tensor();
    };
    return {like(d.d_q, saved[0]),     like(d.d_k, saved[1]),    like(d.d_v, saved[2]),
            like(d.d_sinks, saved[3]), like(d.d_bias, saved[6]), Tensor()};
  }
};

// One query of several heads that share a key becomes several queries of one head: better matrix products in decoding.
struct Folded {
  Tensor q;
  AttentionOptions options;
};
Folded fold_heads_into_queries(const Tensor& q, const AttentionOptions& options, int64_t keys, int64_t kv_heads) {
  const int64_t batch = q.size(0), group = q.size(2) / kv_heads;
  Folded folded{q.view({batch, kv_heads, group, q.size(3)}).transpose(1, 2), options};
  MaskInfo& mask = folded.options.mask;
  mask.q_positions = mask.q_positions.defined()
                         ? mask.q_positions.expand({-1, group})
                         : at::full({1, group}, mask.first_slot(1, keys), q.options().dtype(at::kLong));
  mask.q_offset.reset();
  if (mask.q_segment_ids.defined()) mask.q_segment_ids = mask.q_segment_ids.expand({-1, group});
  return folded;
}

}  // namespace

AttentionOutput blockwise_attention(const Tensor& q, const Tensor& k_in, const Tensor& v_in,
                                    const AttentionOptions& given) {
  require<NotSupportedError>(!given.return_weights, "[attention] \"", given.mechanism,
                             "\" does not return weights. Use \"auto\" or \"vanilla\".");
  const int64_t queries = q.size(1), group = q.size(2) / k_in.size(2);
  if (q.numel() == 0 || v_in.numel() == 0) return {q.new_zeros({q.size(0), queries, q.size(2), v_in.size(3)})};

  // Skips keys that no query can see by the causal and window rules: most of a static cache, all but the window.
  AttentionOptions options = given;
  Tensor k = k_in, v = v_in;
  const auto range = given.mask.key_range(queries, k.size(1), 0, queries);
  if (range.end - range.begin < k.size(1) && range.begin < range.end && given.dropout_p == 0.0) {
    const int64_t count = range.end - range.begin;
    options.mask = given.mask.slice(queries, k.size(1), 0, queries, range.begin, count);
    if (given.bias.defined() && given.bias.size(3) != 1) options.bias = given.bias.narrow(3, range.begin, count);
    k = k_in.narrow(1, range.begin, count);
    v = v_in.narrow(1, range.begin, count);
  }
  const bool folds = queries == 1 && group > 1 && !options.sinks.defined() && !options.bias.defined() &&
                     !options.mask.explicit_mask.defined() && options.dropout_p == 0.0;
  if (!folds) {
    return {
        Blockwise::apply(q, k, v, kernels::as_optional(options.sinks), kernels::as_optional(options.bias), options)};
  }
  const Folded folded = fold_heads_into_queries(q, options, k.size(1), k.size(2));
  const Tensor out = Blockwise::apply(folded.q, k, v, std::optional<Tensor>(), std::optional<Tensor>(), folded.options);
  return {out.transpose(1, 2).reshape({q.size(0), 1, q.size(2), v.size(3)})};
}

namespace blockwise {

Forward nothing_seen(const Tensor& q, int64_t value_size) {
  const auto wide = q.options().dtype(acc_type(q.scalar_type()));
  return {at::zeros({q.size(0), q.size(1), q.size(2), value_size}, wide),
          at::full({q.size(0), q.size(2), q.size(1)}, -std::numeric_limits<double>::infinity(), wide)};
}

Forward forward(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options, OutType out_type) {
  return kernels::applies(q) ? forward_on_cpu(q, k, v, options, out_type)
                             : forward_composed(q, k, v, options, out_type);
}

Backward backward(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options,
                  const Forward& forward, const Tensor& d_out, bool bias_grad) {
  return kernels::applies(q) && !bias_grad ? backward_on_cpu(q, k, v, options, forward, d_out)
                                           : backward_composed(q, k, v, options, forward, d_out, bias_grad);
}

Tensor delta_of(const Forward& forward, const Tensor& d_out) {
  const auto acc = forward.lse.scalar_type();
  return (forward.out.to(acc) * d_out.to(acc)).sum(-1).transpose(1, 2).contiguous();
}

Tensor sinks_gradient(const AttentionOptions& options, const Forward& forward, const Tensor& delta) {
  if (!options.sinks.defined()) return {};
  const Tensor weight = at::exp(options.sinks.to(forward.lse.scalar_type()).view({1, -1, 1}) - forward.lse);
  return (weight * delta).sum(at::IntArrayRef({0, 2})).neg();
}

}  // namespace blockwise
}  // namespace easydel::operations

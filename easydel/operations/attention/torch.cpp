// torch's own kernels: sdpa, flash, cudnn.
#include <ATen/ATen.h>
#include <ATen/SDPBackend.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

#include "easydel/core/error.h"
#include "easydel/operations/attention/mechanisms.h"
#include "easydel/operations/checkpoint.h"
#include "easydel/operations/checkpoint_dots.h"
#include "easydel/operations/kernels/cpu/rows.h"

namespace easydel::operations {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

void require_plain(const char* name, const AttentionOptions& options) {
  const auto refuse = [&](bool asked, const char* what) {
    require<NotSupportedError>(!asked, "[attention] \"", name, "\" does not support ", what,
                               ". Use \"auto\", \"blockwise\" or \"vanilla\".");
  };
  refuse(options.softcap != 0.0, "a soft cap");
  refuse(options.sinks.defined(), "attention sinks");
  refuse(options.dropout_p > 0.0, "dropout with a key");
  require<NotSupportedError>(!options.return_weights, "[attention] \"", name,
                             "\" does not return weights. Use \"auto\" or \"vanilla\".");
}

bool is_half(const Tensor& t) { return t.scalar_type() == at::kHalf || t.scalar_type() == at::kBFloat16; }

// Pads each head with zeros to `size`: they do not change scores, and add only columns to outputs, which are cut off.
Tensor padded(const Tensor& t, int64_t size) {
  return t.size(-1) == size ? t : at::constant_pad_nd(t, {0, size - t.size(-1)});
}

Tensor repeated(const Tensor& t, int64_t group) { return group == 1 ? t : t.repeat_interleave(group, 1); }

// The mask as a matrix that is added to the scores, including the bias. Undefined when there is neither.
Tensor additive(const Tensor& q, const Tensor& k, const AttentionOptions& options, bool without_mask) {
  Tensor mask;
  if (!without_mask) mask = options.mask.to_additive(q.size(1), k.size(1), q.device(), q.scalar_type());
  if (!options.bias.defined()) return mask;
  const Tensor bias = options.bias.to(q.scalar_type());
  return mask.defined() ? mask + bias : bias;
}

void refuse_bias_gradient(const char* name, const AttentionOptions& options) {
  require<NotSupportedError>(!options.bias.defined() || !options.bias.requires_grad(), "[attention] \"", name,
                             "\" does not support a gradient of the bias. Use \"auto\", \"blockwise\", \"sdpa\" or "
                             "\"vanilla\".");
}

AttentionOutput cpu_flash(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options) {
  const int64_t queries = q.size(1), keys = k.size(1), value_size = v.size(3);
  const int64_t head_size = std::max(q.size(3), value_size);
  const MaskInfo& mask = options.mask;
  // The kernel has the square causal mask built in; key padding is passed in addition as one row.
  bool is_causal = mask.is_plain_causal(queries, keys);
  Tensor bias;
  MaskInfo without_padding = mask;
  without_padding.padding_mask.reset();
  if (is_causal || mask.sees_everything(queries, keys)) {
    bias = additive(q, k, options, /*without_mask=*/true);
  } else if (mask.padding_mask.defined() && without_padding.is_plain_causal(queries, keys) && !options.bias.defined()) {
    is_causal = true;
    MaskInfo keys_only;
    keys_only.causal = false;
    keys_only.padding_mask = mask.padding_mask;
    bias = keys_only.to_additive(1, keys, q.device(), q.scalar_type());
  } else {
    bias = additive(q, k, options, /*without_mask=*/false);
  }
  const auto by_head = [&](const Tensor& t) { return padded(t, head_size).transpose(1, 2); };
  const Tensor out = std::get<0>(at::_scaled_dot_product_flash_attention_for_cpu(
      by_head(q), by_head(k), by_head(v), 0.0, is_causal, bias.defined() ? std::optional<Tensor>(bias) : std::nullopt,
      options.scale));
  return {out.transpose(1, 2).narrow(-1, 0, value_size)};
}

bool differs_by_row(const MaskInfo& mask) {
  return mask.padding_mask.defined() || mask.q_segment_ids.defined() || mask.q_positions.defined() ||
         mask.explicit_mask.defined();
}

void require_cuda(const char* name, const Tensor& q, const char* instead) {
  require<NotSupportedError>(q.is_cuda(), "[attention] \"", name, "\" needs a CUDA device; got ", q.device(), ". Use ",
                             instead, ".");
  require<NotSupportedError>(is_half(q), "[attention] \"", name, "\" computes in float16 or bfloat16 on CUDA; got ",
                             dtype_name(q.scalar_type()), ". Set `dtype`, or use \"sdpa\" or \"auto\".");
}

struct FlashOptions : torch::CustomClassHolder {
  int64_t queries = 0, keys = 0;  // the longest of the documents
  bool causal = true;
  std::optional<double> scale;
  std::optional<int64_t> left, right;
};

// torch's flash kernels for a checkpoint that keeps their result: backward does not compute it again.
struct KeptFlash : torch::autograd::Function<KeptFlash> {
  static Tensor forward(AutogradContext* ctx, const Tensor& q, const Tensor& k, const Tensor& v,
                        const std::optional<Tensor>& begins, const c10::intrusive_ptr<FlashOptions>& options) {
    const FlashOptions& o = *options;
    const TensorList made = keep_dots("attn_output", [&]() -> TensorList {
      const auto [out, lse, state, unused, debug] =
          at::_flash_attention_forward(q, k, v, begins, begins, o.queries, o.keys, 0.0, o.causal,
                                       /*return_debug_mask=*/false, o.scale, o.left, o.right);
      return {out, lse, state, unused};
    });
    ctx->save_for_backward({q, k, v, made[0], made[1], made[2], made[3], begins.value_or(Tensor())});
    ctx->saved_data["options"] = c10::IValue::make_capsule(options);
    return made[0];
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    kernels::require_first_derivative("flash attention");
    const auto saved = ctx->get_saved_variables();
    const auto options = c10::static_intrusive_pointer_cast<FlashOptions>(ctx->saved_data["options"].toCapsule());
    const FlashOptions& o = *options;
    const auto [d_q, d_k, d_v] = at::_flash_attention_backward(
        grads[0].contiguous(), saved[0], saved[1], saved[2], saved[3], saved[4], saved[7], saved[7], o.queries, o.keys,
        0.0, o.causal, saved[5], saved[6], o.scale, o.left, o.right);
    return {d_q, d_k, d_v, Tensor(), Tensor()};
  }
};

// q, k, v [B, T, N, H], or [T, N, H] with the documents' begins.
Tensor flash(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& begins, const FlashOptions& o) {
  const std::optional<Tensor> given = begins.defined() ? std::optional(begins) : std::nullopt;
  if (keeps_dot("attn_output")) return KeptFlash::apply(q, k, v, given, c10::make_intrusive<FlashOptions>(o));
  return std::get<0>(at::_flash_attention_forward(q, k, v, given, given, o.queries, o.keys, 0.0, o.causal,
                                                  /*return_debug_mask=*/false, o.scale, o.left, o.right));
}

// cuDNN's kernels, likewise. q, k, v [B, N, T, H].
struct KeptCudnn : torch::autograd::Function<KeptCudnn> {
  static Tensor forward(AutogradContext* ctx, const Tensor& q, const Tensor& k, const Tensor& v, bool is_causal,
                        std::optional<double> scale) {
    const TensorList made = keep_dots("attn_output", [&]() -> TensorList {
      const auto [out, lse, q_begins, k_begins, queries, keys, seed, offset, debug] =
          at::_scaled_dot_product_cudnn_attention(q, k, v, std::nullopt, /*compute_log_sumexp=*/true, 0.0, is_causal,
                                                  /*return_debug_mask=*/false, scale);
      return {out, lse, seed, offset};
    });
    ctx->save_for_backward({q, k, v, made[0], made[1], made[2], made[3]});
    ctx->saved_data["is_causal"] = is_causal;
    ctx->saved_data["scale"] = scale;
    return made[0];
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    kernels::require_first_derivative("cudnn attention");
    const auto saved = ctx->get_saved_variables();
    const Tensor none;
    const auto [d_q, d_k, d_v] = at::_scaled_dot_product_cudnn_attention_backward(
        grads[0], saved[0], saved[1], saved[2], saved[3], saved[4], saved[5], saved[6], none, none, none,
        saved[0].size(2), saved[1].size(2), 0.0, ctx->saved_data["is_causal"].toBool(),
        ctx->saved_data["scale"].toOptional<double>());
    return {d_q, d_k, d_v, Tensor(), Tensor()};
  }
};

// Whether torch's sdpa would choose cuDNN's kernels for training. Asked as with gradients, since the first run of a
// checkpoint has none and must choose what the second does.
bool sdpa_picks_cudnn(const Tensor& q, const Tensor& k, const Tensor& v, bool is_causal, std::optional<double> scale) {
  const at::AutoGradMode with_gradients(true);
  const auto asked = [](const Tensor& t) { return t.detach().requires_grad_(); };
  const int64_t choice = at::_fused_sdp_choice(asked(q), asked(k), asked(v), std::nullopt, 0.0, is_causal, scale,
                                               /*enable_gqa=*/q.size(1) != k.size(1));
  return choice == static_cast<int64_t>(at::SDPBackend::cudnn_attention);
}

}  // namespace

AttentionOutput sdpa_attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options) {
  require_plain("sdpa", options);
  if (q.is_cpu() && !(options.bias.defined() && options.bias.requires_grad())) return cpu_flash(q, k, v, options);
  const int64_t queries = q.size(1), keys = k.size(1), group = q.size(2) / k.size(2);
  const bool is_causal = options.mask.is_plain_causal(queries, keys) && !options.bias.defined();
  Tensor mask;
  if (options.bias.defined()) {
    mask = additive(q, k, options, options.mask.sees_everything(queries, keys));
  } else if (!is_causal && !options.mask.sees_everything(queries, keys)) {
    mask = options.mask.to_bool(queries, keys, q.device());
  }
  if (q.is_cuda() && !mask.defined() && keeps_dot("attn_output")) {
    const Tensor heads_q = q.transpose(1, 2), heads_k = k.transpose(1, 2), heads_v = v.transpose(1, 2);
    if (sdpa_picks_cudnn(heads_q, heads_k, heads_v, is_causal, options.scale))
      return {KeptCudnn::apply(heads_q, heads_k, heads_v, is_causal, options.scale).transpose(1, 2)};
    if (flash_can(q, k, options)) return flash_attention(q, k, v, options);
  }
  // With a mask, torch's fused kernels need as many key heads as query heads.
  const bool repeats = mask.defined() && group > 1;
  const auto heads_first = [&](const Tensor& t) { return repeated(t.transpose(1, 2), repeats ? group : 1); };
  const Tensor out = at::scaled_dot_product_attention(q.transpose(1, 2), heads_first(k), heads_first(v),
                                                      mask.defined() ? std::optional<Tensor>(mask) : std::nullopt, 0.0,
                                                      is_causal, options.scale, /*enable_gqa=*/!repeats && group > 1);
  // Some of these kernels average over all keys where a query sees none.
  const Tensor blind = mask.defined() ? options.mask.blind_queries(queries, keys, q.device()) : Tensor();
  return {(blind.defined() ? out.masked_fill(blind, 0) : out).transpose(1, 2)};
}

bool flash_can(const Tensor& q, const Tensor& k, const AttentionOptions& options) {
  const MaskInfo& mask = options.mask;
  const bool aligned = mask.first_slot(q.size(1), k.size(1)) == k.size(1) - q.size(1);
  return q.is_cuda() && is_half(q) && q.size(3) <= 256 && aligned && !options.bias.defined() &&
         (!differs_by_row(mask) || mask.documents(q.size(0), q.size(1), k.size(1), q.device()));
}

AttentionOutput flash_attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options) {
  require_plain("flash", options);
  refuse_bias_gradient("flash", options);
  if (q.is_cpu()) return cpu_flash(q, k, v, options);
  require_cuda("flash", q, "\"sdpa\" or \"auto\"");
  require<NotSupportedError>(
      flash_can(q, k, options),
      "[attention] \"flash\" supports causal and window masks, padding and segments in one piece each, no bias, and "
      "heads of up to 256; got another mask, a bias, or heads of ",
      q.size(3), ". Use \"sdpa\" or \"auto\".");
  const int64_t head_size = (std::max(q.size(3), v.size(3)) + 7) / 8 * 8;
  FlashOptions flash_options;
  flash_options.queries = q.size(1), flash_options.keys = k.size(1);
  flash_options.causal = options.mask.causal;
  flash_options.scale = options.scale;
  if (options.mask.sliding_window > 0) {
    flash_options.left = options.mask.sliding_window - 1;
    flash_options.right = options.mask.causal ? 0 : options.mask.sliding_window - 1;
  }
  if (!differs_by_row(options.mask)) {
    const Tensor out = flash(padded(q, head_size), padded(k, head_size), padded(v, head_size), {}, flash_options);
    return {out.narrow(-1, 0, v.size(3))};
  }
  const auto documents = options.mask.documents(q.size(0), q.size(1), k.size(1), q.device());
  const auto in_one_row = [&](const Tensor& t) { return padded(t.flatten(0, 1), head_size); };
  flash_options.queries = flash_options.keys = documents->longest;
  const Tensor rows = flash(in_one_row(q), in_one_row(k), in_one_row(v), documents->begins, flash_options);
  const Tensor out = rows.narrow(-1, 0, v.size(3)).view({q.size(0), q.size(1), q.size(2), v.size(3)});
  return {documents->hidden.defined() ? out.masked_fill(documents->hidden.view({q.size(0), q.size(1), 1, 1}), 0) : out};
}

AttentionOutput cudnn_attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options) {
  require_plain("cudnn", options);
  refuse_bias_gradient("cudnn", options);
  require_cuda("cudnn", q, "\"sdpa\" or \"auto\"");
  // Its backward is wrong under a mask that differs between the rows of a batch (seen with torch 2.11).
  require<NotSupportedError>(!differs_by_row(options.mask),
                             "[attention] \"cudnn\" supports causal and window masks; got padding, segments or another "
                             "mask. Use \"sdpa\" or \"auto\".");
  const int64_t queries = q.size(1), keys = k.size(1), group = q.size(2) / k.size(2);
  const bool is_causal = options.mask.is_plain_causal(queries, keys) && !options.bias.defined();
  Tensor bias;
  if (!is_causal) bias = additive(q, k, options, options.mask.sees_everything(queries, keys));
  const auto heads_first = [&](const Tensor& t) { return repeated(t.transpose(1, 2), group); };
  const bool needs_grad = at::GradMode::is_enabled() && (q.requires_grad() || k.requires_grad() || v.requires_grad());
  const Tensor out = std::get<0>(at::_scaled_dot_product_cudnn_attention(
      q.transpose(1, 2), heads_first(k), heads_first(v), bias.defined() ? std::optional<Tensor>(bias) : std::nullopt,
      needs_grad, 0.0, is_causal, /*return_debug_mask=*/false, options.scale));
  return {out.transpose(1, 2)};
}

}  // namespace easydel::operations

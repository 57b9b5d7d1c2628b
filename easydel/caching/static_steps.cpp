// Static steps of a dense cache, which read their slot from the device.
#include <ATen/ATen.h>

#include "easydel/caching/transformer_cache.h"
#include "easydel/core/dtype.h"
#include "easydel/core/error.h"
#include "easydel/operations/attention/cached.h"
#include "easydel/operations/kernels/cuda/fused.h"
#include "easydel/operations/quantized/coded_rows.h"

namespace easydel {

using at::Tensor;

void TransformerCache::begin_static(int64_t keys) {
  require<NotSupportedError>(part_.parts() == 1,
                             "[cache] static steps are not supported with a cache that is split over ranks.");
  require<ConfigError>(keys > length_ && keys <= metadata_.max_length,
                       "[cache] keys of static steps must be more than the ", length_,
                       " tokens of the cache and at most its capacity ", metadata_.max_length, "; got ", keys, ".");
  if (!slot_.defined()) slot_ = at::full({1}, length_, at::TensorOptions(at::kLong).device(metadata_.device));
  slot_.fill_(length_);
  static_keys_ = keys;
}

// [B or 1, 1, 1, keys] of the layer's ring: place i holds the last slot up to this one that is i modulo its capacity.
Tensor TransformerCache::visible_static(const Layer& layer, int64_t keys, int64_t window) {
  const int64_t capacity = layer.capacity();
  for (const StaticMask& known : static_masks_) {
    if (known.capacity == capacity && known.keys == keys && known.window == window && known.chunk == layer.chunk)
      return known.visible;
  }
  const Tensor place = at::arange(keys, slot_.options());
  Tensor visible, slots = place;
  if (keys == capacity && capacity < metadata_.max_length) {
    slots = slot_ - (slot_ - place).remainder(capacity);
    visible = slots.ge(0).logical_and_(slots.gt(slot_ - window));
    visible = starts_.defined() ? visible.unsqueeze(0).logical_and(slots.unsqueeze(0).ge(starts_.unsqueeze(1)))
                                : visible.unsqueeze(0);
  } else {
    visible = place.le(slot_);
    if (window > 0) visible = visible.logical_and_(place.gt(slot_ - window));
    visible = starts_.defined() ? visible.unsqueeze(0).logical_and(place.unsqueeze(0).ge(starts_.unsqueeze(1)))
                                : visible.unsqueeze(0);
  }
  visible = visible.unsqueeze(1).unsqueeze(1);
  if (layer.chunk > 0) visible = visible.logical_and(in_chunk(slot_, slots, layer.chunk, {}));
  static_masks_.push_back({capacity, keys, window, layer.chunk, visible});
  return visible;
}

namespace {

// What at::scaled_dot_product_attention does not have: soft caps and sinks. q [B, K, G, H] of the G query heads that
// share a key/value head.
Tensor attend_by_products(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& visible, double scale,
                          double softcap, const Tensor& sinks) {
  const double infinity = std::numeric_limits<double>::infinity();
  const at::ScalarType wide = acc_type(q.scalar_type());
  Tensor scores = at::matmul(q, k.transpose(2, 3)).to(wide) * scale;
  if (softcap != 0.0) scores = at::tanh(scores / softcap) * softcap;
  scores = scores.masked_fill(~visible, -infinity);
  if (sinks.defined()) {
    const Tensor extra = sinks.to(wide).view({1, q.size(1), q.size(2), 1}).expand({q.size(0), -1, -1, -1});
    scores = at::cat({scores, extra}, -1);
  }
  const Tensor weights = at::softmax(scores, -1).narrow(-1, 0, k.size(2));
  return at::matmul(weights.to(v.scalar_type()), v);
}

}  // namespace

Tensor TransformerCache::attend_static(Layer& layer, const Tensor& q, const Tensor& k, const Tensor& v,
                                       const operations::AttentionOptions& options) {
  require<NotSupportedError>(is_plain(options), "[cache] static steps do not support masks or attention weights.");
  const int64_t capacity = layer.capacity(), keys = std::min(static_keys_, capacity);
  const double scale = operations::score_scale(options, q.size(3));
  operations::cuda_fused::CacheSlots slots{
      layer.k, layer.v, slot_, starts_, arrivals_, keys, options.mask.sliding_window};
  if (!layer.is_latent && !options.sinks.defined() && layer.chunk == 0 &&
      operations::cuda_fused::can_attend_to_cache(q.select(1, 0), slots)) {
    if (!arrivals_.defined() || arrivals_.numel() < q.size(0) * q.size(2))
      slots.arrivals = arrivals_ = at::zeros({q.size(0), q.size(2)}, slot_.options().dtype(at::kInt));
    return operations::cuda_fused::attend_to_cache(q.select(1, 0), k.select(1, 0), v.select(1, 0), slots, scale,
                                                   options.softcap)
        .unsqueeze(1);
  }
  const Tensor place = capacity < metadata_.max_length ? slot_.remainder(capacity) : slot_;
  layer.k.index_copy_(2, place, k.transpose(1, 2));
  if (!layer.is_latent) layer.v.index_copy_(2, place, v.transpose(1, 2));
  // The queries that share a key/value head are rows of one product.
  const int64_t batch = q.size(0), kv_heads = layer.k.size(1), shared = q.size(2) / kv_heads;
  const Tensor rows = q.reshape({batch, kv_heads, shared, q.size(3)});
  const Tensor visible = visible_static(layer, keys, options.mask.sliding_window);
  const Tensor k_seen = operations::from_stored(layer.k.narrow(2, 0, keys), q.scalar_type());
  const Tensor v_seen = operations::from_stored(layer.v.narrow(2, 0, keys), q.scalar_type());
  const Tensor out =
      options.sinks.defined() || options.softcap != 0.0
          ? attend_by_products(rows, k_seen, v_seen, visible, scale, options.softcap, options.sinks)
          : at::scaled_dot_product_attention(rows, k_seen, v_seen, visible.expand({batch, kv_heads, shared, keys}), 0.0,
                                             false, scale);
  return out.reshape({batch, 1, q.size(2), out.size(3)});
}

}  // namespace easydel

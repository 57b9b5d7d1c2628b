// Letters: B batch, T new tokens, S keys, N query heads, K key/value heads, H head size, C capacity.
#include "easydel/caching/transformer_cache.h"

#include <ATen/ATen.h>

#include "easydel/caching/recurrent_states.h"
#include "easydel/core/error.h"
#include "easydel/core/memory.h"
#include "easydel/operations/attention/blockwise.h"
#include "easydel/operations/attention/cached.h"
#include "easydel/operations/quantized/coded_rows.h"
#include "easydel/sharding/collectives/collectives.h"

namespace easydel {
namespace {

using at::Tensor;
using operations::AttentionOptions;
using operations::AttentionOutput;

std::vector<int64_t> to_host(const Tensor& numbers) {
  const Tensor host = numbers.to(at::kLong).cpu().contiguous();
  return {host.const_data_ptr<int64_t>(), host.const_data_ptr<int64_t>() + host.numel()};
}

int64_t capacity_of(const LayerKeys& layer, const TransformerMetadata& metadata, const SlotPart& part) {
  const int64_t all = (metadata.max_length + part.parts() - 1) / part.parts();
  return layer.window > 0 ? std::min(all, (layer.window + part.parts() - 1) / part.parts()) : all;
}

}  // namespace

double TransformerMetadata::bytes() const {
  double sum = 0;
  for (const LayerKeys& layer : layers) {
    sum += static_cast<double>(batch_size * layer.numbers_per_token(dtype)) *
           static_cast<double>(capacity_of(layer, *this, SlotPart(parallel)));
  }
  return sum * static_cast<double>(c10::elementSize(dtype));
}

TransformerCache::TransformerCache(TransformerMetadata metadata, const Tensor& starts)
    : metadata_(std::move(metadata)), part_(metadata_.parallel) {
  require<ConfigError>(metadata_.batch_size > 0 && metadata_.max_length > 0,
                       "[init_cache] batch_size and max_length must be positive; got ", metadata_.batch_size, " and ",
                       metadata_.max_length, ".");
  const auto free = static_cast<double>(available_memory(metadata_.device).value_or(INT64_MAX));
  require<ConfigError>(metadata_.bytes() <= free, "[init_cache] ", metadata_.batch_size, " rows of ",
                       metadata_.max_length, " tokens take ", metadata_.bytes() / 1073741824.0, " GiB; ",
                       free / 1073741824.0, " GiB are free. Use fewer tokens or rows.");
  const auto options = at::TensorOptions(metadata_.dtype).device(metadata_.device);
  for (const LayerKeys& layer : metadata_.layers) {
    const int64_t capacity = capacity_of(layer, metadata_, part_);
    const std::vector<int64_t> shape = {metadata_.batch_size, layer.kv_heads, capacity,
                                        operations::row_width(layer.head_dim, metadata_.dtype)};
    // Zeros: hidden values are multiplied by zero, and uninitialized memory may contain NaN.
    const Tensor k = zeros_on_demand(shape, options);
    const bool is_latent = layer.is_latent(metadata_.dtype);
    layers_.push_back({k, is_latent ? k.narrow(3, 0, layer.value_dim) : zeros_on_demand(shape, options), layer.window,
                       is_latent, layer.chunk});
  }
  if (!starts.defined()) return;
  require<ShapeError>(starts.dim() == 1 && starts.size(0) == metadata_.batch_size, "[init_cache] starts must be [",
                      metadata_.batch_size, "]; got ", starts.sizes(), ".");
  starts_ = starts.to(at::TensorOptions(at::kLong).device(metadata_.device));
  host_starts_ = to_host(starts);
}

Tensor TransformerCache::positions(int64_t batch, int64_t tokens, const CacheMetadata*, at::Device device) const {
  return at::arange(length_, length_ + tokens, at::TensorOptions(at::kLong).device(device))
      .unsqueeze(0)
      .expand({batch, tokens});
}

void TransformerCache::begin(int64_t batch, int64_t tokens, const CacheMetadata*) {
  require<ShapeError>(batch == metadata_.batch_size, "[cache] it was created for ", metadata_.batch_size, " rows; got ",
                      batch, ".");
  require<ShapeError>(length_ + tokens <= metadata_.max_length, "[cache] its max_length is ", metadata_.max_length,
                      " tokens and it has ", length_, "; got ", tokens, " more. Create it with a larger max_length.");
  require<ShapeError>(!is_static() || tokens == 1, "[cache] a static step must be one token; got ", tokens, ".");
  tokens_ = tokens;
  static_masks_.clear();
}

void TransformerCache::end() {
  length_ += std::exchange(tokens_, 0);
  if (is_static()) slot_.add_(1);
}

bool TransformerCache::take_padding(const Tensor& mask) {
  if (mask.dim() != 2 || mask.size(0) != metadata_.batch_size) return false;
  const Tensor seen = mask.ne(0);
  const Tensor starts = seen.size(1) - seen.sum(1);
  if (!at::equal(seen, at::arange(seen.size(1), starts.options()).unsqueeze(0).ge(starts.unsqueeze(1)))) return false;
  const std::vector<int64_t> values = to_host(starts);
  if (length_ > 0 && values != (host_starts_.empty() ? std::vector<int64_t>(values.size(), 0) : host_starts_))
    return false;
  knows_padding_ = true;
  if (std::all_of(values.begin(), values.end(), [](int64_t start) { return start == 0; })) return true;
  host_starts_ = values;
  starts_ = starts.to(metadata_.device);
  return true;
}

namespace {

// One token of every row, [B, 1, K, H], into an index of the ring. On the CPU a copy is faster than creating views.
void put_token(const Tensor& to, const Tensor& from, int64_t place) {
  const auto bytes = static_cast<std::size_t>(to.size(3) * to.element_size());
  const int64_t element = to.element_size();
  auto* const target = static_cast<char*>(to.mutable_data_ptr()) + place * to.stride(2) * element;
  const auto* const source = static_cast<const char*>(from.const_data_ptr());
  for (int64_t row = 0; row < to.size(0); ++row) {
    for (int64_t head = 0; head < to.size(1); ++head) {
      std::memcpy(target + (row * to.stride(0) + head * to.stride(1)) * element,
                  source + (row * from.stride(0) + head * from.stride(2)) * element, bytes);
    }
  }
}

bool is_one_token_here(const Tensor& to, const Tensor& from) {
  return from.size(1) == 1 && from.is_cpu() && to.is_cpu() && from.scalar_type() == to.scalar_type() &&
         from.stride(3) == 1 && to.stride(3) == 1 && from.size(3) == to.size(3);
}

}  // namespace

void TransformerCache::store(Layer& layer, const Tensor& k, const Tensor& v) const {
  if (part_.parts() == 1 && is_one_token_here(layer.k, k) && (layer.is_latent || is_one_token_here(layer.v, v))) {
    put_token(layer.k, k, length_ % layer.capacity());
    if (!layer.is_latent) put_token(layer.v, v, length_ % layer.capacity());
    return;
  }
  const int64_t first = part_.local(length_), end = part_.local(length_ + k.size(1)), parts = part_.parts();
  const int64_t capacity = layer.capacity();
  for (int64_t at = std::max(first, end - capacity); at < end;) {
    const int64_t place = at % capacity, run = std::min(end - at, capacity - place);
    const auto put = [&](const Tensor& to, const Tensor& from) {
      const int64_t token = part_.slot(at) - length_;
      to.narrow(2, place, run).copy_(from.slice(1, token, token + (run - 1) * parts + 1, parts).transpose(1, 2));
    };
    put(layer.k, k);
    if (!layer.is_latent) put(layer.v, v);
    at += run;
  }
}

TransformerCache::Seen TransformerCache::see(Layer& layer, const Tensor& k, const Tensor& v) const {
  const int64_t tokens = k.size(1), capacity = layer.capacity();
  const int64_t before = part_.local(length_), after = part_.local(length_ + tokens);
  Seen seen;
  const auto view = [](const Tensor& x, int64_t begin, int64_t count) {
    return x.narrow(2, begin, count).transpose(1, 2);
  };
  if (after <= capacity || tokens == 1) {  // nothing that is still needed is overwritten
    store(layer, k, v);
    const int64_t count = std::min(after, capacity);
    seen.k = view(layer.k, 0, count);
    seen.v = view(layer.v, 0, count);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t rounds = after > capacity ? (after - 1 - i) / capacity : 0;
      seen.slots.push_back(part_.slot(i + rounds * capacity));
    }
    seen.in_order = after <= capacity;
    return seen;
  }
  // The end of the ring, its beginning, and the new ones.
  const int64_t kept = std::min(before, capacity), split = before > capacity ? before % capacity : 0;
  const int64_t own = part_.local(length_ + tokens) - before, first = part_.slot(before) - length_;
  const auto all = [&](const Tensor& ring, const Tensor& fresh) {
    std::vector<Tensor> pieces{view(ring, split, kept - split), view(ring, 0, split)};
    if (own > 0) pieces.push_back(fresh.slice(1, first, tokens, part_.parts()));
    return at::cat(pieces, 1);
  };
  seen.k = all(layer.k, k);
  seen.v = all(layer.v, v);
  for (int64_t i = before - kept; i < after; ++i) seen.slots.push_back(part_.slot(i));
  store(layer, k, v);
  return seen;
}

// The mask between this step's queries and the visible keys. Its tensors cover all slots up to the last token.
MaskInfo TransformerCache::mask_of(const Seen& seen, const MaskInfo& given, int64_t tokens, int64_t chunk) const {
  const auto options = at::TensorOptions(at::kLong).device(metadata_.device);
  const auto keys = static_cast<int64_t>(seen.slots.size());
  MaskInfo mask = given;
  mask.memory = MaskInfo::make_memory();
  const bool is_chunked = chunk > 0 && length_ + tokens > chunk;
  const bool by_rule = part_.parts() == 1 && seen.in_order && !is_chunked;
  mask.q_offset = length_ - (keys > 0 ? seen.slots[0] : 0);
  if (by_rule && !starts_.defined() && !given.padding_mask.defined() && !given.explicit_mask.defined()) return mask;
  if (!by_rule && !is_chunked && tokens == 1 && part_.parts() == 1 && !starts_.defined() &&
      !given.padding_mask.defined() && !given.explicit_mask.defined() &&
      (given.sliding_window == 0 || keys <= given.sliding_window)) {
    mask.causal = false;  // a full window, in ring order
    mask.sliding_window = 0;
    return mask;
  }
  const Tensor slots = at::tensor(seen.slots, at::kLong).to(metadata_.device);
  if (given.padding_mask.defined()) mask.padding_mask = given.padding_mask.index_select(1, slots);
  if (starts_.defined()) {
    const Tensor started = slots.unsqueeze(0).ge(starts_.unsqueeze(1));
    mask.padding_mask = mask.padding_mask.defined() ? mask.padding_mask.ne(0).logical_and(started) : started;
  }
  if (given.explicit_mask.defined() && given.explicit_mask.size(-1) > 1)
    mask.explicit_mask = given.explicit_mask.index_select(-1, slots);
  if (by_rule) return mask;
  const Tensor queries = at::arange(length_, length_ + tokens, options).unsqueeze(1);
  Tensor visible = at::ones({tokens, keys}, options.dtype(at::kBool));
  if (given.causal) visible = visible.logical_and(slots.unsqueeze(0).le(queries));
  if (given.sliding_window > 0) visible = visible.logical_and(slots.unsqueeze(0).gt(queries - given.sliding_window));
  visible = visible.view({1, 1, tokens, keys});
  if (is_chunked) visible = visible.logical_and(in_chunk(queries.squeeze(1), slots, chunk, given));
  mask.explicit_mask = mask.explicit_mask.defined() ? mask.explicit_mask.logical_and(visible) : visible;
  mask.causal = false;
  mask.sliding_window = 0;
  return mask;
}

Tensor TransformerCache::in_chunk(const Tensor& queries, const Tensor& keys, int64_t chunk,
                                  const MaskInfo& given) const {
  Tensor starts = at::zeros({1, 1}, queries.options());
  if (starts_.defined()) starts = starts_.unsqueeze(1);
  if (given.padding_mask.defined()) starts = given.padding_mask.ne(0).cumsum(1).eq(0).sum(1, /*keepdim=*/true);
  const auto chunk_of = [&](const Tensor& slots) { return (slots.unsqueeze(0) - starts).div(chunk, "floor"); };
  return chunk_of(queries).unsqueeze(2).eq(chunk_of(keys).unsqueeze(1)).unsqueeze(1);
}

bool TransformerCache::is_plain(const AttentionOptions& options) const {
  const MaskInfo& mask = options.mask;
  return !options.return_weights && !options.bias.defined() && options.dropout_p == 0.0 && !options.dtype &&
         mask.causal && !mask.padding_mask.defined() && !mask.explicit_mask.defined() && !mask.q_positions.defined();
}

operations::KeySpan TransformerCache::span_of(int64_t row, int64_t window, int64_t chunk) const {
  int64_t first = host_starts_.empty() ? 0 : host_starts_[static_cast<std::size_t>(row)];
  if (chunk > 0 && length_ > first) first += (length_ - first) / chunk * chunk;
  if (window > 0) first = std::max(first, length_ + 1 - window);
  const int64_t end = part_.local(length_ + 1);
  return {.begin = std::min(part_.local(first), end), .end = end, .ring = row};
}

std::optional<CacheSlot> TransformerCache::slot_of_token(int64_t index, const AttentionOptions& options) {
  const Layer& layer = layers_.at(static_cast<std::size_t>(index));
  if (metadata_.batch_size != 1 || tokens_ != 1 || part_.parts() > 1 || is_static() || layer.is_latent ||
      metadata_.dtype != float32 || !layer.k.is_cpu() || !is_plain(options))
    return std::nullopt;
  return CacheSlot{{layer.k, layer.v}, span_of(0, options.mask.sliding_window, layer.chunk)};
}

Tensor TransformerCache::attend_one(Layer& layer, const Tensor& q, const AttentionOptions& options) const {
  std::vector<operations::KeySpan> spans;
  for (int64_t row = 0; row < q.size(0); ++row) spans.push_back(span_of(row, options.mask.sliding_window, layer.chunk));
  const bool wide = part_.parts() > 1 || options.sinks.defined();
  const operations::CachedAttention attended = operations::attend_to_blocks(
      q.select(1, 0), {layer.k, layer.v}, spans, operations::score_scale(options, q.size(-1)), options.softcap, wide);
  const Tensor out = attended.out.unsqueeze(1);
  return wide ? part_.merge(out, attended.lse.unsqueeze(-1), options.sinks).to(q.scalar_type()) : out;
}

AttentionOutput TransformerCache::attend(int64_t index, const Tensor& q, const Tensor& k, const Tensor& v,
                                         const AttentionOptions& given) {
  Layer& layer = layers_.at(static_cast<std::size_t>(index));
  require<NotSupportedError>(
      !given.mask.q_segment_ids.defined(),
      "[cache] packed segments are not supported with a cache. Put each sequence in a separate row.");
  const int64_t features = operations::row_features(layer.k.size(3), metadata_.dtype);
  require<ShapeError>(k.size(2) == layer.k.size(1) && k.size(3) == features, "[cache] layer ", index, " stores ",
                      layer.k.size(1), " heads of ", features, "; got ", k.sizes(), ".");
  const at::NoGradGuard no_grad;
  const Tensor k_new = operations::to_stored(k, metadata_.dtype), v_new = operations::to_stored(v, metadata_.dtype);
  if (is_static()) return {attend_static(layer, q, k_new, v_new, given), {}};
  const operations::KeyBlocks blocks{layer.k, layer.v};
  if (q.size(1) == 1 && is_plain(given) && operations::can_attend_to_blocks(q, blocks)) {
    store(layer, k_new, v_new);
    return {attend_one(layer, q, given), {}};
  }
  const Seen seen = see(layer, k_new, v_new);
  AttentionOptions options = given;
  options.mask = mask_of(seen, given.mask, q.size(1), layer.chunk);
  if (given.bias.defined() && given.bias.size(3) > static_cast<int64_t>(seen.slots.size()))
    options.bias = given.bias.index_select(3, at::tensor(seen.slots, at::kLong).to(given.bias.device()));
  if (part_.parts() == 1)
    return operations::attention(q, operations::from_stored(seen.k, q.scalar_type()),
                                 operations::from_stored(seen.v, q.scalar_type()), options);
  require<NotSupportedError>(!options.return_weights,
                             "[attention] output_attentions is not supported with a cache that is split over ranks.");
  options.scale = operations::score_scale(given, q.size(-1));
  options.sinks.reset();
  const operations::blockwise::Forward part =
      seen.slots.empty() ? operations::blockwise::nothing_seen(q, v.size(3))
                         : operations::blockwise::forward(q, operations::from_stored(seen.k, q.scalar_type()),
                                                          operations::from_stored(seen.v, q.scalar_type()), options,
                                                          operations::blockwise::OutType::Wide);
  return {part_.merge(part.out, part.lse, given.sinks).to(q.scalar_type()), {}};
}

void TransformerCache::reorder(const Tensor& rows) {
  Tensor index = rows.to(at::TensorOptions(at::kLong).device(metadata_.device));
  const Group* group = nullptr;
  std::vector<int64_t> sizes;
  if (metadata_.parallel && metadata_.parallel->mesh().size(metadata_.parallel->batch()) > 1) {
    // A row may continue on another rank. Padding rows stay where they are.
    const AxisNames& axes = metadata_.parallel->batch();
    const int64_t local = metadata_.batch_size, parts = metadata_.parallel->mesh().size(axes);
    group = &metadata_.parallel->group(axes);
    sizes.assign(static_cast<std::size_t>(parts), local);
    index = at::cat({index, at::arange(index.size(0), local * parts, index.options())})
                .narrow(0, local * metadata_.parallel->mesh().index(axes), local);
  }
  const auto chosen = [&](const Tensor& x) {
    return (group ? collectives::gather(x.contiguous(), 0, sizes, *group) : x).index_select(0, index);
  };
  for (Layer& layer : layers_) {
    // In place: a captured graph keeps using this memory.
    const int64_t used = std::min(part_.local(length_), layer.capacity());
    const auto move = [&](const Tensor& x) { x.narrow(2, 0, used).copy_(chosen(x.narrow(2, 0, used))); };
    move(layer.k);
    if (!layer.is_latent) move(layer.v);
  }
  for (auto& [layer, states] : row_states) {
    for (Tensor& state : states) state.copy_(chosen(state));
  }
  // Ranks do not know whether others have starts.
  if (!starts_.defined() && !group) return;
  if (!starts_.defined()) starts_ = at::zeros({metadata_.batch_size}, index.options());
  starts_.copy_(chosen(starts_));
  host_starts_ = to_host(starts_);
}

void TransformerCache::reset() {
  set_length(0);
  starts_.reset();
  host_starts_.clear();
  knows_padding_ = false;
  row_states.clear();
}

void TransformerCache::crop(int64_t length) {
  require<ConfigError>(length >= 0 && length <= length_, "[cache] the length to crop to must be from 0 to ", length_,
                       "; got ", length, ".");
  for (const Layer& layer : layers_) {
    require<ConfigError>(layer.window == 0 || length == 0 || part_.local(length_) <= layer.capacity(),
                         "[cache] a layer with a window of ", layer.window,
                         " no longer has the keys it would need. Start over with reset().");
  }
  require<ConfigError>(length == 0 || length == length_ || !has_recurrent_states(*this),
                       "[cache] recurrent layers have no state of earlier tokens. Start over with reset().");
  if (length == 0) std::erase_if(row_states, [](const auto& entry) { return entry.first < 0; });
  set_length(length);
}

void TransformerCache::set_length(int64_t length) {
  length_ = length;
  if (slot_.defined()) slot_.fill_(length);
}

}  // namespace easydel

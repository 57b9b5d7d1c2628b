// Letters: T tokens of a call, K key/value heads, N query heads, H head size, S keys of a sequence.
#include "easydel/caching/ragged_pages_cache.h"

#include <ATen/ATen.h>

#include <cstring>

#include "easydel/core/error.h"
#include "easydel/core/memory.h"
#include "easydel/operations/attention/blockwise.h"
#include "easydel/operations/attention/cached.h"
#include "easydel/operations/kernels/cuda/paged/paged_attention.h"
#include "easydel/operations/quantized/coded_rows.h"
#include "easydel/operations/threading/parallel.h"

namespace easydel {

using at::Tensor;
using operations::AttentionOptions;
using operations::AttentionOutput;

namespace {

// Rows [K, H] of `from` [T, K, H] to their places in pages [P, K, C, H], as bytes: a step of a few tokens spends less
// on that than on an operation. False when they are not on the CPU or of another type.
bool copy_to_pages(const Tensor& pages, const Tensor& from, const Tensor& tokens, const Tensor& places) {
  const bool is_plain = pages.is_cpu() && from.is_cpu() && pages.scalar_type() == from.scalar_type() &&
                        pages.stride(3) == 1 && from.stride(2) == 1;
  if (!is_plain) return false;
  const auto element = static_cast<int64_t>(pages.element_size());
  const int64_t heads = pages.size(1), page_size = pages.size(2), bytes = pages.size(3) * element;
  auto* const to_data = static_cast<char*>(pages.mutable_data_ptr());
  const auto* const from_data = static_cast<const char*>(from.const_data_ptr());
  const auto* const token = tokens.const_data_ptr<int64_t>();
  const auto* const place = places.const_data_ptr<int64_t>();
  operations::for_rows(places.numel(), heads * pages.size(3), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t to = place[i] / page_size * pages.stride(0) + place[i] % page_size * pages.stride(2);
      for (int64_t head = 0; head < heads; ++head) {
        std::memcpy(to_data + (to + head * pages.stride(1)) * element,
                    from_data + (token[i] * from.stride(0) + head * from.stride(1)) * element,
                    static_cast<std::size_t>(bytes));
      }
    }
  });
  return true;
}

}  // namespace

int64_t RaggedPagesMetadata::page_bytes() const {
  int64_t sum = 0;
  for (const LayerKeys& layer : layers) sum += layer.numbers_per_token(dtype) * page_size;
  return sum * static_cast<int64_t>(c10::elementSize(dtype));
}

int64_t RaggedBatch::tokens() const {
  int64_t sum = 0;
  for (const Part& part : parts) sum += part.tokens;
  return sum;
}

Tensor RaggedBatch::last_tokens() const {
  std::vector<int64_t> last;
  int64_t end = 0;
  for (const Part& part : parts) last.push_back((end += part.tokens) - 1);
  return at::tensor(last, at::kLong);
}

RaggedPagesCache::RaggedPagesCache(RaggedPagesMetadata metadata)
    : metadata_(std::move(metadata)), part_(metadata_.parallel) {
  require<ConfigError>(metadata_.page_size > 0 && metadata_.num_pages > 0 && metadata_.max_model_length > 0,
                       "[init_ragged_pages] page_size, the number of pages and max_model_length must be positive; got ",
                       metadata_.page_size, ", ", metadata_.num_pages, " and ", metadata_.max_model_length, ".");
  const auto options = at::TensorOptions(metadata_.dtype).device(metadata_.device);
  for (const LayerKeys& layer : metadata_.layers) {
    const std::vector<int64_t> shape = {metadata_.num_pages, layer.kv_heads, metadata_.page_size,
                                        operations::row_width(layer.head_dim, metadata_.dtype)};
    const Tensor k = zeros_on_demand(shape, options);
    const bool is_latent = layer.is_latent(metadata_.dtype);
    layers_.push_back(
        {k, is_latent ? k.narrow(3, 0, layer.value_dim) : zeros_on_demand(shape, options), is_latent, layer.chunk});
  }
  for (int64_t page = metadata_.num_pages; page-- > 0;) free_.push_back(static_cast<int32_t>(page));
}

int64_t RaggedPagesCache::add_sequence() {
  sequences_[next_sequence_] = {};
  return next_sequence_++;
}

void RaggedPagesCache::free_sequence(int64_t sequence) {
  const std::vector<int32_t>& pages = find(sequence).pages;
  free_.insert(free_.end(), pages.rbegin(), pages.rend());
  sequences_.erase(sequence);
}

RaggedPagesCache::Sequence& RaggedPagesCache::find(int64_t sequence) {
  return const_cast<Sequence&>(std::as_const(*this).find(sequence));
}
const RaggedPagesCache::Sequence& RaggedPagesCache::find(int64_t sequence) const {
  const auto found = sequences_.find(sequence);
  require<ConfigError>(found != sequences_.end(), "[pages] unknown sequence ", sequence,
                       ": it was never added, or is already freed.");
  return found->second;
}

int64_t RaggedPagesCache::sequence_length(int64_t sequence) const { return find(sequence).length; }

int64_t RaggedPagesCache::pages_needed(int64_t sequence, int64_t tokens) const {
  const Sequence& found = find(sequence);
  const int64_t kept = part_.local(found.length + tokens);
  return std::max<int64_t>(
      0, (kept + metadata_.page_size - 1) / metadata_.page_size - static_cast<int64_t>(found.pages.size()));
}

const RaggedBatch& RaggedPagesCache::batch_of(const CacheMetadata* step, int64_t tokens) const {
  const auto* batch = dynamic_cast<const RaggedBatch*>(step);
  require<ConfigError>(
      batch != nullptr,
      "[pages] a forward over pages needs cache_metadata: a RaggedBatch that assigns tokens to sequences.");
  require<ShapeError>(batch->tokens() == tokens, "[pages] the parts of the RaggedBatch have ", batch->tokens(),
                      " tokens; input_ids has ", tokens, ".");
  return *batch;
}

Tensor RaggedPagesCache::positions(int64_t, int64_t tokens, const CacheMetadata* step, at::Device device) const {
  std::vector<int64_t> positions;
  for (const RaggedBatch::Part& part : batch_of(step, tokens).parts) {
    const int64_t before = length_before(part);
    for (int64_t t = 0; t < part.tokens; ++t) positions.push_back(before + t);
  }
  return at::tensor(positions, at::kLong).to(device).unsqueeze(0);
}

int64_t RaggedPagesCache::length_before(const RaggedBatch::Part& part) const {
  return part.pages.empty() ? find(part.sequence).length : part.before;
}

void RaggedPagesCache::check(const RaggedBatch::Part& part, const std::vector<StepPart>& others) const {
  const int64_t total = length_before(part) + part.tokens;
  require<ShapeError>(part.tokens > 0, "[pages] every part must have tokens; sequence ", part.sequence, " has ",
                      part.tokens, ".");
  require<ShapeError>(total <= metadata_.max_model_length, "[pages] sequence ", part.sequence, " would have ", total,
                      " tokens; max_model_length is ", metadata_.max_model_length, ".");
  if (part.pages.empty()) {
    for (const StepPart& other : others)
      require<ConfigError>(other.is_managed || other.sequence != part.sequence, "[pages] sequence ", part.sequence,
                           " appears twice in one call.");
    return;
  }
  const auto room = static_cast<int64_t>(part.pages.size()) * metadata_.page_size;
  require<ShapeError>(part_.local(total) <= room, "[pages] sequence ", part.sequence, " would have ", total,
                      " tokens; the pages that it was given hold ", room, ".");
  for (const int32_t page : part.pages)
    require<ConfigError>(page >= 0 && page < metadata_.num_pages, "[pages] there is no page ", page, " among ",
                         metadata_.num_pages, ".");
}

void RaggedPagesCache::begin(int64_t rows, int64_t tokens, const CacheMetadata* given) {
  require<ShapeError>(rows == 1, "[pages] the tokens of all sequences must be one row, [1, tokens]; got ", rows,
                      " rows.");
  device_step_.reset();
  if (const auto* decode = dynamic_cast<const DecodeBatch*>(given)) {
    require<NotSupportedError>(uses_device_kernels(), "[pages] a DecodeBatch needs a whole cache on a GPU.");
    device_step_ = DeviceStep{.decode = *decode, .decoded = tokens};
    step_.clear();
    return;
  }
  const RaggedBatch& batch = batch_of(given, tokens);
  std::vector<StepPart> step;
  int64_t row = 0, needed = 0;
  for (const RaggedBatch::Part& part : batch.parts) {
    check(part, step);
    const bool is_managed = !part.pages.empty();
    if (!is_managed) needed += pages_needed(part.sequence, part.tokens);
    step.push_back({part.sequence, row, part.tokens, length_before(part), part.pages, is_managed});
    row += part.tokens;
  }
  require<Error>(needed <= free_pages(), "[pages] this call needs ", needed, " more pages of ", metadata_.page_size,
                 " tokens; ", free_pages(), " of ", metadata_.num_pages, " are free. Free a sequence first.");
  std::vector<int64_t> kept, places;
  for (StepPart& part : step) {
    if (!part.is_managed) {
      Sequence& sequence = find(part.sequence);
      for (int64_t pages = pages_needed(part.sequence, part.tokens); pages > 0; --pages) {
        sequence.pages.push_back(free_.back());
        free_.pop_back();
      }
      part.pages = sequence.pages;
    }
    for (int64_t local = part_.local(part.before); local < part_.local(part.before + part.tokens); ++local) {
      kept.push_back(part.row + part_.slot(local) - part.before);
      places.push_back(part.pages[static_cast<std::size_t>(local / metadata_.page_size)] * metadata_.page_size +
                       local % metadata_.page_size);
    }
  }
  step_ = std::move(step);
  step_tokens_ = at::tensor(kept, at::kLong).to(metadata_.device);
  step_places_ = at::tensor(places, at::kLong).to(metadata_.device);
  if (uses_device_kernels()) prepare_device_step();
}

bool RaggedPagesCache::uses_device_kernels() const { return metadata_.device.is_cuda() && part_.parts() == 1; }

// Everything that the kernels read, in one copy to the device.
void RaggedPagesCache::prepare_device_step() {
  DeviceStep step;
  const auto is_next = [](const StepPart& part) { return part.tokens == 1; };
  const auto first_rest = std::find_if_not(step_.begin(), step_.end(), is_next);
  step.decoded = first_rest - step_.begin();
  const auto others = static_cast<int64_t>(step_.end() - first_rest);
  const auto widest = [](auto begin, auto end) {
    std::size_t pages = 1;
    for (auto part = begin; part != end; ++part) pages = std::max(pages, part->pages.size());
    return static_cast<int64_t>(pages);
  };
  const int64_t columns = widest(step_.begin(), first_rest), more_columns = widest(first_rest, step_.end());
  std::vector<int32_t> numbers;
  const auto add_row = [&](const StepPart& part, int64_t width) {
    numbers.insert(numbers.end(), part.pages.begin(), part.pages.end());
    numbers.resize(numbers.size() + static_cast<std::size_t>(width) - part.pages.size());
  };
  for (auto part = step_.begin(); part != first_rest; ++part) add_row(*part, columns);
  for (auto part = step_.begin(); part != first_rest; ++part) {
    numbers.push_back(static_cast<int32_t>(part->before + 1));
    step.decode.max_length = std::max(step.decode.max_length, part->before + 1);
  }
  for (auto part = first_rest; part != step_.end(); ++part) add_row(*part, more_columns);
  std::vector<int32_t> starts_q{0}, starts_k{0};
  for (auto part = first_rest; part != step_.end(); ++part) {
    const int64_t keys = part->before + part->tokens;
    starts_q.push_back(starts_q.back() + static_cast<int32_t>(part->tokens));
    starts_k.push_back(starts_k.back() + static_cast<int32_t>(keys));
    step.max_q = std::max(step.max_q, part->tokens);
    step.max_k = std::max(step.max_k, keys);
    // What the cache rounds is read from it, so that a token depends on the sequence alone and not on its chunks.
    step.fresh &= part->before == 0 && c10::elementSize(metadata_.dtype) > 1;
  }
  step.rest = starts_q.back();
  step.total_k = starts_k.back();
  numbers.insert(numbers.end(), starts_q.begin(), starts_q.end());
  numbers.insert(numbers.end(), starts_k.begin(), starts_k.end());
  const Tensor all = at::tensor(numbers, at::kInt).to(metadata_.device);
  int64_t at = 0;
  const auto next = [&](int64_t rows, int64_t width) {
    const Tensor view = all.narrow(0, at, rows * width).view({rows, width});
    at += rows * width;
    return view;
  };
  step.decode.slots = step_places_;
  step.decode.table = next(step.decoded, columns);
  step.decode.lengths = next(1, step.decoded).view({-1});
  step.table = next(others, more_columns);
  step.cu_q = next(1, others + 1).view({-1});
  step.cu_k = next(1, others + 1).view({-1});
  device_step_ = std::move(step);
}

// None where a kernel does not have the layer: then the parts go one by one.
std::optional<Tensor> RaggedPagesCache::attend_on_device(const Layer& layer, const Tensor& q, const Tensor& k,
                                                         const Tensor& v, const AttentionOptions& options) {
  namespace paged = operations::cuda_paged;
  const paged::Pages pages{layer.k, layer.v};
  const DeviceStep& step = *device_step_;
  if (layer.chunk > 0 || !paged::paged_store(k, layer.is_latent ? Tensor() : v, step.decode.slots, pages))
    return std::nullopt;
  std::vector<Tensor> outs;
  if (step.decoded > 0) {
    const auto out = paged::paged_decode(q.narrow(0, 0, step.decoded), pages, step.decode.table, step.decode.lengths,
                                         {.scale = *options.scale,
                                          .softcap = options.softcap,
                                          .window = options.mask.sliding_window,
                                          .sinks = options.sinks,
                                          .max_length = step.decode.max_length});
    if (!out) return std::nullopt;
    outs.push_back(*out);
  }
  if (step.rest > 0) {
    const auto own = [&](const Tensor& x) { return x.narrow(0, step.decoded, step.rest); };
    const auto out = layer.is_latent ? std::nullopt
                                     : paged::paged_prefill({.q = own(q),
                                                             .k = own(k),
                                                             .v = own(v),
                                                             .cu_q = step.cu_q,
                                                             .cu_k = step.cu_k,
                                                             .table = step.table,
                                                             .max_q = step.max_q,
                                                             .max_k = step.max_k,
                                                             .total_k = step.total_k,
                                                             .fresh = step.fresh,
                                                             .scale = *options.scale,
                                                             .softcap = options.softcap,
                                                             .window = options.mask.sliding_window,
                                                             .sinks = options.sinks},
                                                            pages);
    if (!out) return std::nullopt;
    outs.push_back(*out);
  }
  return outs.size() == 1 ? outs.front() : at::cat(outs);
}

void RaggedPagesCache::end() {
  for (const StepPart& part : step_) {
    if (!part.is_managed) find(part.sequence).length += part.tokens;
  }
  step_.clear();
}

operations::KeySpan RaggedPagesCache::span_of(const StepPart& part, int64_t token, int64_t window,
                                              int64_t chunk) const {
  const int64_t end = part.before + token + 1;
  int64_t first = window > 0 ? std::max<int64_t>(0, end - window) : 0;
  if (chunk > 0) first = std::max(first, (end - 1) / chunk * chunk);
  return {.begin = part_.local(first), .end = part_.local(end), .blocks = part.pages.data()};
}

std::optional<CacheSlot> RaggedPagesCache::slot_of_token(int64_t index, const AttentionOptions& options) {
  const Layer& layer = layers_.at(static_cast<std::size_t>(index));
  const MaskInfo& mask = options.mask;
  const bool is_plain = mask.causal && !mask.padding_mask.defined() && !mask.explicit_mask.defined() &&
                        !mask.q_segment_ids.defined() && !mask.q_positions.defined() && !options.return_weights &&
                        !options.bias.defined() && options.dropout_p == 0.0 && !options.dtype;
  if (step_.size() != 1 || step_[0].tokens != 1 || part_.parts() > 1 || layer.is_latent || !is_plain ||
      metadata_.dtype != float32 || !layer.k.is_cpu())
    return std::nullopt;
  return CacheSlot{{layer.k, layer.v}, span_of(step_[0], 0, mask.sliding_window, layer.chunk)};
}

void RaggedPagesCache::store(Layer& layer, const Tensor& k, const Tensor& v) const {
  if (step_places_.numel() == 0) return;
  const auto put = [&](const Tensor& to, const Tensor& from) {
    if (copy_to_pages(to, from, step_tokens_, step_places_)) return;
    const Tensor page = at::floor_divide(step_places_, metadata_.page_size);
    const Tensor offset = step_places_.remainder(metadata_.page_size);
    to.transpose(1, 2).index_put_({page, offset},
                                  operations::to_stored(from.index_select(0, step_tokens_), to.scalar_type()));
  };
  put(layer.k, k);
  if (!layer.is_latent) put(layer.v, v);
}

// The keys of one sequence, gathered from its pages.
Tensor RaggedPagesCache::attend_to_sequence(const Layer& layer, const StepPart& part, const Tensor& q_TNH,
                                            const AttentionOptions& given) const {
  const int64_t total = part.before + part.tokens, size = metadata_.page_size, window = given.mask.sliding_window;
  int64_t first_slot = window > 0 ? std::max<int64_t>(0, part.before + 1 - window) : 0;
  if (layer.chunk > 0) first_slot = std::max(first_slot, part.before / layer.chunk * layer.chunk);
  const bool several_chunks = layer.chunk > 0 && (total - 1) / layer.chunk > part.before / layer.chunk;
  const int64_t begin = part_.local(first_slot), end = part_.local(total);
  AttentionOptions options = given;
  options.sinks.reset();
  options.mask.memory = MaskInfo::make_memory();
  operations::blockwise::Forward result;
  if (begin == end) {
    result = operations::blockwise::nothing_seen(q_TNH.unsqueeze(0),
                                                 operations::row_features(layer.v.size(3), metadata_.dtype));
  } else {
    const std::vector<int32_t>& pages = part.pages;
    const int64_t first_page = begin / size, last_page = (end + size - 1) / size;
    const Tensor table =
        at::tensor(std::vector<int64_t>(pages.begin() + first_page, pages.begin() + last_page), at::kLong)
            .to(metadata_.device);
    const auto keys = [&](const Tensor& x) {
      const Tensor rows = x.index_select(0, table).transpose(1, 2).flatten(0, 1);
      return operations::from_stored(rows.narrow(0, begin - first_page * size, end - begin).unsqueeze(0),
                                     q_TNH.scalar_type());
    };
    if (part_.parts() == 1 && !given.mask.q_positions.defined() && !several_chunks) {
      options.mask.q_offset = part.before - begin;
    } else {
      const auto longs = at::TensorOptions(at::kLong).device(metadata_.device);
      const Tensor slots = at::arange(part_.slot(begin), part_.slot(end), part_.parts(), longs).unsqueeze(0);
      const Tensor queries = at::arange(part.before, total, longs).unsqueeze(1);
      // The last key that a query sees is its own, unless the mask says another.
      const Tensor last = given.mask.q_positions.defined()
                              ? given.mask.q_positions[0].narrow(0, part.row, part.tokens).unsqueeze(1)
                              : queries;
      Tensor visible = slots.le(last);
      if (window > 0) visible = visible.logical_and(slots.gt(queries - window));
      if (several_chunks)
        visible = visible.logical_and(slots.div(layer.chunk, "floor").eq(queries.div(layer.chunk, "floor")));
      options.mask = MaskInfo{.causal = false};
      options.mask.explicit_mask = visible.view({1, 1, part.tokens, end - begin});
    }
    const Tensor q = q_TNH.unsqueeze(0), k = keys(layer.k), v = keys(layer.v);
    if (part_.parts() == 1 && q.is_cuda()) {
      options.sinks = given.sinks;
      return operations::attention(q, k, v, options).out.squeeze(0);
    }
    result = operations::blockwise::forward(q, k, v, options, operations::blockwise::OutType::Wide);
  }
  return part_.merge(result.out, result.lse, given.sinks).to(q_TNH.scalar_type()).squeeze(0);
}

AttentionOutput RaggedPagesCache::attend(int64_t index, const Tensor& q_BTNH, const Tensor& k_BTKH,
                                         const Tensor& v_BTKH, const AttentionOptions& given) {
  const MaskInfo& mask = given.mask;
  require<NotSupportedError>(mask.causal && !mask.padding_mask.defined() && !mask.explicit_mask.defined() &&
                                 !mask.q_segment_ids.defined() && !given.return_weights && !given.bias.defined(),
                             "[pages] a forward over pages does not support masks and attention weights.");
  const at::NoGradGuard no_grad;
  Layer& layer = layers_.at(static_cast<std::size_t>(index));
  const Tensor q = q_BTNH.squeeze(0), k = k_BTKH.squeeze(0), v = v_BTKH.squeeze(0);
  AttentionOptions options = given;
  options.scale = operations::score_scale(given, q.size(-1));
  if (device_step_ && !mask.q_positions.defined()) {
    if (const std::optional<Tensor> out = attend_on_device(layer, q, k, v, options)) return {out->unsqueeze(0), {}};
    require<NotSupportedError>(!step_.empty(), "[pages] no kernel has the attention of layer ", index,
                               " for a DecodeBatch.");
  }
  store(layer, k, v);
  // Few tokens of a sequence, the next ones, attend to the pages in place, all at once; longer parts one by one.
  constexpr int64_t kFewTokens = 8;
  const bool in_place = operations::can_attend_to_blocks(q, {layer.k, layer.v});
  const auto attend_few = [&](const Tensor& queries, const std::vector<operations::KeySpan>& spans) {
    const operations::CachedAttention attended =
        operations::attend_to_blocks(queries, {layer.k, layer.v}, spans, *options.scale, options.softcap, true);
    return part_.merge(attended.out.unsqueeze(0), attended.lse.t().unsqueeze(0).contiguous(), given.sinks)
        .squeeze(0)
        .to(q.scalar_type());
  };
  Tensor out;  // where the parts go one by one
  std::vector<int64_t> rows;
  std::vector<operations::KeySpan> spans;
  for (const StepPart& part : step_) {
    if (!in_place || part.tokens > kFewTokens || (mask.q_positions.defined() && part.tokens > 1)) {
      if (!out.defined()) out = at::empty({q.size(0), q.size(1), v.size(2)}, q.options());
      out.narrow(0, part.row, part.tokens)
          .copy_(attend_to_sequence(layer, part, q.narrow(0, part.row, part.tokens), options));
      continue;
    }
    for (int64_t token = 0; token < part.tokens; ++token) {
      rows.push_back(part.row + token);
      spans.push_back(span_of(part, token, mask.sliding_window, layer.chunk));
    }
  }
  if (!out.defined()) return {attend_few(q, spans).unsqueeze(0), {}};
  if (!rows.empty()) {
    const Tensor places = at::tensor(rows, at::kLong);
    out.index_copy_(0, places, attend_few(q.index_select(0, places), spans));
  }
  return {out.unsqueeze(0), {}};
}

void RaggedPagesCache::reorder(const Tensor&) {
  fail<NotSupportedError>("[pages] beam search needs a dense cache: create it with init_cache.");
}

}  // namespace easydel

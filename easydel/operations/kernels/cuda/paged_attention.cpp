#include "easydel/operations/kernels/cuda/paged_attention.h"

#include <ATen/ATen.h>

#include <bit>

#include "easydel/core/error.h"

#ifdef EASYDEL_CUDA_KERNELS
#include "easydel/operations/kernels/cuda/fused.h"
#include "easydel/operations/kernels/cuda/launch.h"
#include "easydel/operations/kernels/cuda/paged_kernels.h"
#endif

namespace easydel::operations::cuda_paged {

using at::Tensor;

#ifdef EASYDEL_CUDA_KERNELS

namespace {

bool are_pages(const Tensor& x) {
  return x.is_cuda() && x.dim() == 4 && x.stride(3) == 1 && std::has_single_bit(static_cast<uint64_t>(x.size(2)));
}

int32_t page_shift(const Tensor& pages) { return std::countr_zero(static_cast<uint64_t>(pages.size(2))); }

cuda_kernels::PageStrides strides_of(const Tensor& pages, int64_t unit) {
  return {pages.stride(0) * unit, pages.stride(1) * unit, pages.stride(2) * unit};
}

Tensor with_dense_rows(const Tensor& x) { return x.stride(-1) == 1 ? x : x.contiguous(); }

void check_int32(const char* name, const Tensor& x) {
  require<ConfigError>(x.scalar_type() == at::kInt && x.is_cuda(), "[pages] `", name,
                       "` must be int32 and on the GPU; got ", c10::toString(x.scalar_type()), " on ", x.device().str(),
                       ".");
}

}  // namespace

bool paged_store(const Tensor& k_in, const Tensor& v_in, const Tensor& slots, const Pages& pages) {
  if (!are_pages(pages.k) || (v_in.defined() && !are_pages(pages.v))) return false;
  require<ConfigError>(slots.scalar_type() == at::kLong && slots.is_cuda() && slots.is_contiguous(),
                       "[pages] slots must be dense int64 on the GPU; got ", c10::toString(slots.scalar_type()), " on ",
                       slots.device().str(), ".");
  const auto as_stored = [](const Tensor& x, const Tensor& to) {
    require<ShapeError>(x.dim() == 3 && x.size(1) == to.size(1) && x.size(2) == to.size(3), "[pages] rows of shape ",
                        x.sizes(), " do not fit in pages of shape ", to.sizes(), ".");
    return with_dense_rows(x.to(to.scalar_type()));
  };
  const Tensor k = as_stored(k_in, pages.k), v = v_in.defined() ? as_stored(v_in, pages.v) : Tensor();
  require<ShapeError>(slots.numel() == k.size(0), "[pages] ", k.size(0), " tokens need as many slots; got ",
                      slots.numel(), ".");
  const auto rows = [](const Tensor& x, const Tensor& to) -> cuda_kernels::PagedStore::Rows {
    if (!x.defined()) return {};
    const int64_t unit = x.element_size();
    return {x.const_data_ptr(),    x.stride(0) * unit,   x.stride(1) * unit,
            to.mutable_data_ptr(), strides_of(to, unit), static_cast<int32_t>(x.size(2) * unit)};
  };
  const cuda_kernels::PagedStore args{.k = rows(k, pages.k),
                                      .v = rows(v, pages.v),
                                      .slots = slots.const_data_ptr<int64_t>(),
                                      .tokens = k.size(0),
                                      .kv_heads = static_cast<int32_t>(k.size(1)),
                                      .page_shift = page_shift(pages.k)};
  launch(k, [&](auto stream) { cuda_kernels::paged_store(args, stream); });
  return true;
}

std::optional<Tensor> paged_decode(const Tensor& q_in, const Pages& pages, const Tensor& table, const Tensor& lengths,
                                   const DecodeOptions& options) {
  if (!cuda_fused::applies(q_in) || !are_pages(pages.k) || !are_pages(pages.v) ||
      pages.k.scalar_type() != q_in.scalar_type() || pages.v.scalar_type() != q_in.scalar_type() ||
      pages.k.size(3) != q_in.size(2)) {
    return std::nullopt;
  }
  check_int32("table", table);
  check_int32("lengths", lengths);
  const int64_t queries = q_in.size(0), heads = q_in.size(1), kv_heads = pages.k.size(1);
  require<ShapeError>(table.dim() == 2 && table.stride(1) == 1 && table.size(0) == queries &&
                          lengths.numel() == queries && lengths.is_contiguous() && heads % kv_heads == 0,
                      "[pages] queries ", q_in.sizes(), " need a table row and a length each, and heads that ",
                      kv_heads, " key heads divide; got ", table.sizes(), " and ", lengths.sizes(), ".");
  const Tensor q = with_dense_rows(q_in);
  const Tensor sinks = options.sinks.defined() ? options.sinks.to(at::kFloat).contiguous() : Tensor();
  cuda_kernels::PagedDecode args{};
  args.q = q.const_data_ptr(), args.q_row = q.stride(0), args.q_head = q.stride(1);
  args.k = pages.k.const_data_ptr(), args.v = pages.v.const_data_ptr();
  args.k_strides = strides_of(pages.k, 1), args.v_strides = strides_of(pages.v, 1);
  args.tables = table.const_data_ptr<int32_t>(), args.table_row = table.stride(0);
  args.lengths = lengths.const_data_ptr<int32_t>();
  args.sinks = sinks.defined() ? sinks.const_data_ptr<float>() : nullptr;
  args.window = options.window;
  args.queries = static_cast<int32_t>(queries), args.kv_heads = static_cast<int32_t>(kv_heads);
  args.shared = static_cast<int32_t>(heads / kv_heads);
  args.head_size = static_cast<int32_t>(q.size(2)), args.value_size = static_cast<int32_t>(pages.v.size(3));
  args.page_shift = page_shift(pages.k), args.blocks = static_cast<int32_t>(table.size(1));
  args.scale = static_cast<float>(options.scale), args.softcap = static_cast<float>(options.softcap);
  if (!cuda_kernels::can_paged_decode(args)) return std::nullopt;

  const int64_t widest = table.size(1) * pages.k.size(2);
  const c10::cuda::CUDAGuard guard(q.device());
  cuda_kernels::plan_paged_decode(args, options.max_length > 0 ? std::min(options.max_length, widest) : widest);
  Tensor out = at::empty({queries, heads, pages.v.size(3)}, q.options());
  const Tensor scratch = at::empty({cuda_kernels::scratch_floats(args)}, q.options().dtype(at::kFloat));
  args.out = out.mutable_data_ptr(), args.scratch = scratch.mutable_data_ptr<float>();
  launch(q, [&](auto stream) { cuda_kernels::paged_decode(element_of(q), args, stream); });
  return out;
}

Tensor gather_pages(const Tensor& pages, const Tensor& table, const Tensor& cu_lengths, int64_t total) {
  check_int32("table", table);
  check_int32("cu_lengths", cu_lengths);
  require<ShapeError>(are_pages(pages) && table.dim() == 2 && table.stride(1) == 1 && cu_lengths.is_contiguous() &&
                          cu_lengths.numel() == table.size(0) + 1,
                      "[pages] gathering needs pages of a power of two of tokens, with dense rows, and for each row of "
                      "the table where its keys begin; got ",
                      pages.sizes(), ", ", table.sizes(), " and ", cu_lengths.sizes(), ".");
  Tensor y = at::empty({total, pages.size(1), pages.size(3)}, pages.options());
  const int64_t unit = pages.element_size();
  const cuda_kernels::GatherPages args{.pages = pages.const_data_ptr(),
                                       .strides = strides_of(pages, unit),
                                       .tables = table.const_data_ptr<int32_t>(),
                                       .cu_lengths = cu_lengths.const_data_ptr<int32_t>(),
                                       .y = y.mutable_data_ptr(),
                                       .table_row = table.stride(0),
                                       .total = total,
                                       .sequences = static_cast<int32_t>(table.size(0)),
                                       .kv_heads = static_cast<int32_t>(pages.size(1)),
                                       .page_shift = page_shift(pages),
                                       .bytes = static_cast<int32_t>(pages.size(3) * unit)};
  launch(pages, [&](auto stream) { cuda_kernels::gather_pages(args, stream); });
  return y;
}

std::optional<Tensor> paged_prefill(const Prefill& p, const Pages& pages) {
  const auto type = p.q.scalar_type();
  const int64_t size = p.q.size(2);
  if (!p.q.is_cuda() || (type != at::kHalf && type != at::kBFloat16) || p.softcap != 0 || p.sinks.defined() ||
      size % 8 != 0 || size > 256 || p.v.size(2) != size) {
    return std::nullopt;
  }
  if (!p.fresh && (!are_pages(pages.k) || !are_pages(pages.v) || pages.k.scalar_type() != type ||
                   pages.v.scalar_type() != type || pages.k.size(3) != size || pages.v.size(3) != size)) {
    return std::nullopt;
  }
  check_int32("cu_q", p.cu_q);
  const Tensor k = p.fresh ? with_dense_rows(p.k) : gather_pages(pages.k, p.table, p.cu_k, p.total_k);
  const Tensor v = p.fresh ? with_dense_rows(p.v) : gather_pages(pages.v, p.table, p.cu_k, p.total_k);
  const std::optional<Tensor> starts_q = p.cu_q, starts_k = p.fresh ? p.cu_q : p.cu_k;
  const std::optional<double> scale = p.scale;
  std::optional<int64_t> left, right;
  if (p.window > 0) left = p.window - 1, right = 0;
  return std::get<0>(at::_flash_attention_forward(with_dense_rows(p.q), k, v, starts_q, starts_k, p.max_q,
                                                  p.fresh ? p.max_q : p.max_k, 0.0, /*is_causal=*/true,
                                                  /*return_debug_mask=*/false, scale, left, right));
}

Tensor argmax_rows(const Tensor& logits) {
  if (!cuda_fused::applies(logits) || logits.dim() != 2 || logits.stride(1) != 1 || logits.size(0) > 65535 ||
      logits.size(1) == 0) {
    return logits.argmax(-1);
  }
  Tensor ids = at::empty({logits.size(0)}, logits.options().dtype(at::kLong));
  const Tensor scratch = at::empty({cuda_kernels::argmax_scratch(logits.size(0))}, ids.options());
  const cuda_kernels::ArgMax args{.x = logits.const_data_ptr(),
                                  .ids = ids.mutable_data_ptr<int64_t>(),
                                  .scratch = reinterpret_cast<uint64_t*>(scratch.mutable_data_ptr<int64_t>()),
                                  .rows = logits.size(0),
                                  .width = logits.size(1),
                                  .x_row = logits.stride(0)};
  launch(logits, [&](auto stream) { cuda_kernels::argmax(element_of(logits), args, stream); });
  return ids;
}

std::optional<Tensor> sample_rows(const Tensor& logits, const Tensor& settings, bool wants_ranks) {
  if (!cuda_fused::applies(logits) || logits.dim() != 2 || logits.stride(1) != 1) return std::nullopt;
  Tensor out = at::empty({3, logits.size(0)}, settings.options());
  const cuda_kernels::SampleRows args{.x = logits.const_data_ptr(),
                                      .settings = settings.const_data_ptr<double>(),
                                      .out = out.mutable_data_ptr<double>(),
                                      .rows = logits.size(0),
                                      .width = logits.size(1),
                                      .x_row = logits.stride(0),
                                      .wants_ranks = wants_ranks};
  if (!cuda_kernels::can_sample_rows(args)) return std::nullopt;
  launch(logits, [&](auto stream) { cuda_kernels::sample_rows(element_of(logits), args, stream); });
  return out;
}

#else

bool paged_store(const Tensor&, const Tensor&, const Tensor&, const Pages&) { return false; }
std::optional<Tensor> paged_decode(const Tensor&, const Pages&, const Tensor&, const Tensor&, const DecodeOptions&) {
  return std::nullopt;
}
Tensor gather_pages(const Tensor&, const Tensor&, const Tensor&, int64_t) {
  fail<NotSupportedError>("[pages] this build has no GPU kernels: it was built without nvcc.");
}
std::optional<Tensor> paged_prefill(const Prefill&, const Pages&) { return std::nullopt; }
Tensor argmax_rows(const Tensor& logits) { return logits.argmax(-1); }
std::optional<Tensor> sample_rows(const Tensor&, const Tensor&, bool) { return std::nullopt; }

#endif

}  // namespace easydel::operations::cuda_paged

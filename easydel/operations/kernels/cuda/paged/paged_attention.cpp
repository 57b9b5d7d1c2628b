#include "easydel/operations/kernels/cuda/paged/paged_attention.h"

#include <ATen/ATen.h>

#include <bit>

#include "easydel/core/error.h"

#ifdef EASYDEL_CUDA_KERNELS
#include "easydel/operations/kernels/cuda/fused.h"
#include "easydel/operations/kernels/cuda/launch.h"
#include "easydel/operations/kernels/cuda/paged/paged_kernels.h"
#include "easydel/operations/quantized/coded_rows.h"
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

cuda_kernels::PageRows rows_of(at::ScalarType stored) {
  return stored == at::kChar            ? cuda_kernels::PageRows::Codes
         : stored == at::kFloat8_e4m3fn ? cuda_kernels::PageRows::Float8E4M3
         : stored == at::kFloat8_e5m2   ? cuda_kernels::PageRows::Float8E5M2
                                        : cuda_kernels::PageRows::Plain;
}

// Whether pages hold such rows for numbers of this type. The scale behind codes is read as a whole.
bool hold_rows_for(const Pages& pages, at::ScalarType type) {
  if (pages.k.scalar_type() != pages.v.scalar_type()) return false;
  const auto in_words = [](const Tensor& x) {
    return x.size(3) % 4 == 0 && x.stride(0) % 4 == 0 && x.stride(1) % 4 == 0 && x.stride(2) % 4 == 0 &&
           reinterpret_cast<std::uintptr_t>(x.const_data_ptr()) % 4 == 0;
  };
  switch (rows_of(pages.k.scalar_type())) {
    case cuda_kernels::PageRows::Plain: return pages.k.scalar_type() == type;
    case cuda_kernels::PageRows::Codes: return in_words(pages.k) && in_words(pages.v);
    default: return true;
  }
}

int64_t features_of(const Tensor& pages) { return row_features(pages.size(3), pages.scalar_type()); }

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
  const bool encodes = pages.k.scalar_type() == at::kChar && k_in.scalar_type() != at::kChar;
  const Pages written{pages.k, v_in.defined() ? pages.v : pages.k};
  if (encodes && (!cuda_fused::applies(k_in) || !hold_rows_for(written, k_in.scalar_type()))) return false;
  const auto as_stored = [&](const Tensor& x, const Tensor& to) {
    const int64_t features = encodes ? features_of(to) : to.size(3);
    require<ShapeError>(x.dim() == 3 && x.size(1) == to.size(1) && x.size(2) == features, "[pages] rows of shape ",
                        x.sizes(), " do not fit in pages of shape ", to.sizes(), ".");
    return with_dense_rows(encodes ? x : to_stored(x, to.scalar_type()));
  };
  const Tensor k = as_stored(k_in, pages.k), v = v_in.defined() ? as_stored(v_in, pages.v) : Tensor();
  require<ShapeError>(slots.numel() == k.size(0), "[pages] ", k.size(0), " tokens need as many slots; got ",
                      slots.numel(), ".");
  const auto rows = [&](const Tensor& x, const Tensor& to) -> cuda_kernels::PagedStore::Rows {
    if (!x.defined()) return {};
    const int64_t unit = x.element_size();
    return {x.const_data_ptr(),
            x.stride(0) * unit,
            x.stride(1) * unit,
            to.mutable_data_ptr(),
            strides_of(to, to.element_size()),
            static_cast<int32_t>(x.size(2) * (encodes ? 1 : unit))};
  };
  const cuda_kernels::PagedStore args{.k = rows(k, pages.k),
                                      .v = rows(v, pages.v),
                                      .slots = slots.const_data_ptr<int64_t>(),
                                      .tokens = k.size(0),
                                      .kv_heads = static_cast<int32_t>(k.size(1)),
                                      .page_shift = page_shift(pages.k)};
  launch(k, [&](auto stream) {
    if (encodes) {
      cuda_kernels::paged_store_codes(element_of(k), args, stream);
    } else {
      cuda_kernels::paged_store(args, stream);
    }
  });
  return true;
}

std::optional<Tensor> paged_decode(const Tensor& q_in, const Pages& pages, const Tensor& table, const Tensor& lengths,
                                   const DecodeOptions& options) {
  if (!cuda_fused::applies(q_in) || !are_pages(pages.k) || !are_pages(pages.v) ||
      !hold_rows_for(pages, q_in.scalar_type()) || features_of(pages.k) != q_in.size(2)) {
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
  args.head_size = static_cast<int32_t>(q.size(2)), args.value_size = static_cast<int32_t>(features_of(pages.v));
  args.page_shift = page_shift(pages.k), args.blocks = static_cast<int32_t>(table.size(1));
  args.scale = static_cast<float>(options.scale), args.softcap = static_cast<float>(options.softcap);
  args.rows = rows_of(pages.k.scalar_type());
  if (!cuda_kernels::can_paged_decode(args)) return std::nullopt;

  const int64_t widest = table.size(1) * pages.k.size(2);
  const c10::cuda::CUDAGuard guard(q.device());
  cuda_kernels::plan_paged_decode(args, options.max_length > 0 ? std::min(options.max_length, widest) : widest);
  Tensor out = at::empty({queries, heads, args.value_size}, q.options());
  const Tensor scratch = at::empty({cuda_kernels::scratch_floats(args)}, q.options().dtype(at::kFloat));
  args.out = out.mutable_data_ptr(), args.scratch = scratch.mutable_data_ptr<float>();
  launch(q, [&](auto stream) { cuda_kernels::paged_decode(element_of(q), args, stream); });
  return out;
}

Tensor gather_pages(const Tensor& pages, const Tensor& table, const Tensor& cu_lengths, int64_t total,
                    at::ScalarType type) {
  const bool widens = rows_of(pages.scalar_type()) != cuda_kernels::PageRows::Plain && type != pages.scalar_type();
  require<ConfigError>(widens || type == pages.scalar_type(), "[pages] pages of ", c10::toString(pages.scalar_type()),
                       " cannot be gathered as ", c10::toString(type), ".");
  check_int32("table", table);
  check_int32("cu_lengths", cu_lengths);
  require<ShapeError>(are_pages(pages) && table.dim() == 2 && table.stride(1) == 1 && cu_lengths.is_contiguous() &&
                          cu_lengths.numel() == table.size(0) + 1,
                      "[pages] gathering needs pages of a power of two of tokens, with dense rows, and for each row of "
                      "the table where its keys begin; got ",
                      pages.sizes(), ", ", table.sizes(), " and ", cu_lengths.sizes(), ".");
  const int64_t width = widens ? features_of(pages) : pages.size(3);
  Tensor y = at::empty({total, pages.size(1), width}, pages.options().dtype(type));
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
                                       .bytes = static_cast<int32_t>(widens ? width : width * unit)};
  launch(pages, [&](auto stream) {
    if (widens) {
      cuda_kernels::gather_coded_pages(element_of(y), rows_of(pages.scalar_type()), args, stream);
    } else {
      cuda_kernels::gather_pages(args, stream);
    }
  });
  return y;
}

std::optional<Tensor> paged_prefill(const Prefill& p, const Pages& pages) {
  const auto type = p.q.scalar_type();
  const int64_t size = p.q.size(2);
  if (!p.q.is_cuda() || (type != at::kHalf && type != at::kBFloat16) || p.softcap != 0 || p.sinks.defined() ||
      size % 8 != 0 || size > 256 || p.v.size(2) != size) {
    return std::nullopt;
  }
  if (!p.fresh && (!are_pages(pages.k) || !are_pages(pages.v) || !hold_rows_for(pages, type) ||
                   features_of(pages.k) != size || features_of(pages.v) != size)) {
    return std::nullopt;
  }
  check_int32("cu_q", p.cu_q);
  const Tensor k = p.fresh ? with_dense_rows(p.k) : gather_pages(pages.k, p.table, p.cu_k, p.total_k, type);
  const Tensor v = p.fresh ? with_dense_rows(p.v) : gather_pages(pages.v, p.table, p.cu_k, p.total_k, type);
  const std::optional<Tensor> starts_q = p.cu_q, starts_k = p.fresh ? p.cu_q : p.cu_k;
  const std::optional<double> scale = p.scale;
  std::optional<int64_t> left, right;
  if (p.window > 0) left = p.window - 1, right = 0;
  return std::get<0>(at::_flash_attention_forward(with_dense_rows(p.q), k, v, starts_q, starts_k, p.max_q,
                                                  p.fresh ? p.max_q : p.max_k, 0.0, /*is_causal=*/true,
                                                  /*return_debug_mask=*/false, scale, left, right));
}

namespace {

bool can_find_largest(const Tensor& logits) {
  return cuda_fused::applies(logits) && logits.dim() == 2 && logits.stride(1) == 1 && logits.size(0) <= 65535 &&
         logits.size(1) > 0;
}

Tensor find_largest(const Tensor& logits, cuda_kernels::ArgMax args) {
  Tensor ids = at::empty({logits.size(0)}, logits.options().dtype(at::kLong));
  const Tensor scratch = at::empty({cuda_kernels::argmax_scratch(logits.size(0))}, ids.options());
  args.x = logits.const_data_ptr();
  args.ids = ids.mutable_data_ptr<int64_t>();
  args.scratch = reinterpret_cast<uint64_t*>(scratch.mutable_data_ptr<int64_t>());
  args.rows = logits.size(0), args.width = logits.size(1), args.x_row = logits.stride(0);
  launch(logits, [&](auto stream) { cuda_kernels::argmax(element_of(logits), args, stream); });
  return ids;
}

}  // namespace

Tensor argmax_rows(const Tensor& logits) {
  return can_find_largest(logits) ? find_largest(logits, {}) : logits.argmax(-1);
}

std::optional<Tensor> append_largest(const Tensor& logits, const GrowingRows& rows) {
  if (!can_find_largest(logits) || rows.column.scalar_type() != at::kLong || rows.lengths.scalar_type() != at::kLong)
    return std::nullopt;
  for (const Tensor& t : {rows.running, rows.column, rows.lengths, rows.invalid}) {
    if (t.device() != logits.device() || t.dim() != 1 || t.numel() != logits.size(0)) return std::nullopt;
  }
  for (const Tensor& t : {rows.running, rows.lengths, rows.invalid}) {
    if (!t.is_contiguous()) return std::nullopt;
  }
  cuda_kernels::ArgMax args{};
  args.running = rows.running.const_data_ptr<bool>();
  args.column = rows.column.mutable_data_ptr<int64_t>(), args.column_row = rows.column.stride(0);
  args.lengths = rows.lengths.mutable_data_ptr<int64_t>(), args.invalid = rows.invalid.mutable_data_ptr<bool>();
  args.pad = rows.pad;
  return find_largest(logits, args);
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
Tensor gather_pages(const Tensor&, const Tensor&, const Tensor&, int64_t, at::ScalarType) {
  fail<NotSupportedError>("[pages] this build has no GPU kernels: it was built without nvcc.");
}
std::optional<Tensor> paged_prefill(const Prefill&, const Pages&) { return std::nullopt; }
Tensor argmax_rows(const Tensor& logits) { return logits.argmax(-1); }
std::optional<Tensor> append_largest(const Tensor&, const GrowingRows&) { return std::nullopt; }
std::optional<Tensor> sample_rows(const Tensor&, const Tensor&, bool) { return std::nullopt; }

#endif

}  // namespace easydel::operations::cuda_paged

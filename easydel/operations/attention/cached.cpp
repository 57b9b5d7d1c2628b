#include "easydel/operations/attention/cached.h"

#include <ATen/ATen.h>

#include <cmath>
#include <cstring>

#include "easydel/core/dtype.h"
#include "easydel/operations/attention/attend_parts.h"
#include "easydel/operations/kernels/cpu/rows.h"
#include "easydel/operations/quantized/coded_rows.h"
#include "easydel/operations/threading/parallel.h"

namespace easydel::operations {
namespace {

using at::Tensor;
using kernels::AttendArgs;

// Rows of small blocks are brought together in memory: the kernel is fastest with many at once.
constexpr int64_t kTogether = 64;

template <class A>
class Attend {
 public:
  Attend(const Tensor& q, const KeyBlocks& keys, const std::vector<KeySpan>& spans, double scale, double softcap)
      : keys_(keys),
        spans_(spans),
        q_(q.scalar_type() == c10::CppTypeToScalarType<A>::value && q.is_contiguous()
               ? q
               : q.to(c10::CppTypeToScalarType<A>::value).contiguous()),
        kv_heads_(keys.k.size(1)),
        capacity_(keys.k.size(2)),
        element_(keys.k.element_size()),
        kernel_(keys.k.scalar_type() == at::kChar ? kernels::active().attend_codes
                                                  : kernels::for_elements(keys.k.scalar_type()).attend_run) {
    args_ = {.heads = q.size(1) / kv_heads_,
             .k_size = row_features(keys.k.size(3), keys.k.scalar_type()),
             .v_size = row_features(keys.v.size(3), keys.v.scalar_type()),
             .k_stride = keys.k.stride(2),
             .v_stride = keys.v.stride(2),
             .scale = scale,
             .softcap = softcap};
    together_ = args_;
    together_.k_stride = keys.k.size(3);
    together_.v_stride = keys.v.size(3);
    int64_t longest = 0;
    for (const KeySpan& span : spans) longest = std::max(longest, span.end - span.begin);
    const int64_t tasks = static_cast<int64_t>(spans.size()) * kv_heads_;
    splits_ = attend_splits(longest, tasks, at::get_num_threads());
    longest_ = longest;
  }

  void run(Tensor& out, Tensor& lse) {
    const int64_t tasks = static_cast<int64_t>(spans_.size()) * kv_heads_ * splits_;
    const int64_t out_size = args_.heads * args_.v_size;
    std::vector<AttendPart<A>> partials(static_cast<std::size_t>(tasks));
    const Tensor sums = at::empty({tasks, out_size}, q_.options());
    A* sums_data = sums.mutable_data_ptr<A>();
    const int64_t cost = 2 * args_.heads * args_.k_size * (longest_ / splits_ + 1);
    for_rows(tasks, cost, [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task)
        attend(task, partials[static_cast<std::size_t>(task)], sums_data + task * out_size);
    });
    A* out_data = out.mutable_data_ptr<A>();
    A* lse_data = lse.mutable_data_ptr<A>();
    for (int64_t group = 0; group < tasks / splits_; ++group) {
      for (int64_t g = 0; g < args_.heads; ++g) {
        lse_data[group * args_.heads + g] =
            merge_parts(partials.data() + group * splits_, splits_, sums_data + group * splits_ * out_size, out_size, g,
                        args_.v_size, out_data + group * out_size + g * args_.v_size);
      }
    }
  }

 private:
  void attend(int64_t task, AttendPart<A>& partial, A* sums) const {
    const int64_t split = task % splits_, head = task / splits_ % kv_heads_, query = task / splits_ / kv_heads_;
    const KeySpan& span = spans_[static_cast<std::size_t>(query)];
    partial.clear(args_.heads);
    std::fill_n(sums, args_.heads * args_.v_size, A(0));
    const int64_t count = span.end - span.begin;
    int64_t slot = span.begin + count * split / splits_;
    const int64_t end = span.begin + count * (split + 1) / splits_;
    const A* q = q_.const_data_ptr<A>() + (query * kv_heads_ + head) * args_.heads * args_.k_size;
    if (capacity_ < kTogether && slot / capacity_ != (end - 1) / capacity_)
      return attend_together(span, q, head, slot, end, partial, sums);
    while (slot < end) {
      const int64_t at = slot % capacity_, run = std::min(end - slot, capacity_ - at);
      const int64_t block = span.blocks ? span.blocks[slot / capacity_] : span.ring;
      kernel_(args_, q, place(keys_.k, block, head, at), place(keys_.v, block, head, at), run, partial.maximum,
              partial.sum, sums);
      slot += run;
    }
  }

  void attend_together(const KeySpan& span, const A* q, int64_t head, int64_t slot, int64_t end, AttendPart<A>& partial,
                       A* sums) const {
    thread_local std::vector<char> rows;
    const auto bytes = [&](const Tensor& x) { return static_cast<std::size_t>(kTogether * x.size(3) * element_); };
    rows.resize(bytes(keys_.k) + bytes(keys_.v));
    char *const k = rows.data(), *const v = k + bytes(keys_.k);
    while (slot < end) {
      const int64_t count = std::min(end - slot, kTogether);
      for (int64_t i = 0; i < count;) {
        const int64_t at = (slot + i) % capacity_, run = std::min(count - i, capacity_ - at);
        const int64_t block = span.blocks ? span.blocks[(slot + i) / capacity_] : span.ring;
        copy_rows(keys_.k, place(keys_.k, block, head, at), run, k, i);
        copy_rows(keys_.v, place(keys_.v, block, head, at), run, v, i);
        i += run;
      }
      kernel_(together_, q, k, v, count, partial.maximum, partial.sum, sums);
      slot += count;
    }
  }

  void copy_rows(const Tensor& x, const char* from, int64_t count, char* to, int64_t first) const {
    const int64_t bytes = x.size(3) * element_, stride = x.stride(2) * element_;
    to += first * bytes;
    if (stride == bytes) {
      std::memcpy(to, from, static_cast<std::size_t>(count * bytes));
      return;
    }
    for (int64_t i = 0; i < count; ++i) std::memcpy(to + i * bytes, from + i * stride, static_cast<std::size_t>(bytes));
  }

  const char* place(const Tensor& x, int64_t block, int64_t head, int64_t at) const {
    return static_cast<const char*>(x.const_data_ptr()) +
           (block * x.stride(0) + head * x.stride(1) + at * x.stride(2)) * element_;
  }

  const KeyBlocks& keys_;
  const std::vector<KeySpan>& spans_;
  Tensor q_;
  int64_t kv_heads_, capacity_, element_, splits_ = 1, longest_ = 0;
  AttendArgs args_ = {}, together_ = {};
  decltype(kernels::ElementKernels::attend_run) kernel_;
};

}  // namespace

double score_scale(const AttentionOptions& options, int64_t head_size) {
  return options.scale.value_or(1.0 / std::sqrt(static_cast<double>(head_size)));
}

bool can_attend_to_blocks(const Tensor& q, const KeyBlocks& keys) {
  return kernels::applies(q) && keys.k.is_cpu() &&
         (q.scalar_type() == keys.k.scalar_type() ||
          (keys.k.scalar_type() == at::kChar && q.scalar_type() != at::kDouble)) &&
         keys.k.stride(3) == 1 && keys.v.stride(3) == 1 && keys.k.size(1) > 0 &&
         q.size(-2) / keys.k.size(1) <= kernels::kMaxSharedHeads && keys.k.size(3) <= kernels::kMaxHeadDim &&
         keys.v.size(3) <= kernels::kMaxHeadDim;
}

CachedAttention attend_to_blocks(const Tensor& q, const KeyBlocks& keys, const std::vector<KeySpan>& spans,
                                 double scale, double softcap, bool wide_out) {
  const auto acc = acc_type(q.scalar_type());
  Tensor out =
      at::empty({q.size(0), q.size(1), row_features(keys.v.size(3), keys.v.scalar_type())}, q.options().dtype(acc));
  Tensor lse = at::empty({q.size(0), q.size(1)}, out.options());
  if (acc == at::kDouble) {
    Attend<double>(q, keys, spans, scale, softcap).run(out, lse);
  } else {
    Attend<float>(q, keys, spans, scale, softcap).run(out, lse);
  }
  return {wide_out || q.scalar_type() == acc ? out : out.to(q.scalar_type()), lse};
}

}  // namespace easydel::operations

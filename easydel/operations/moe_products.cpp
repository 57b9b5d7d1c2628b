#include "easydel/operations/moe_products.h"

#include <ATen/ATen.h>

#include "easydel/operations/product.h"

namespace easydel::operations {
namespace {

using at::Tensor;

// One kernel for all experts, where torch has it: bfloat16 on CUDA, rows of 16 bytes.
bool has_grouped_kernel(const Tensor& a, int64_t out_features, const ExpertRows& rows) {
  return a.is_cuda() && a.scalar_type() == at::kBFloat16 && a.size(1) % 8 == 0 && out_features % 8 == 0 &&
         a.size(0) > 0 && rows.ends.size(0) > 0;
}

// f(expert, first row, rows) for each expert that has some.
template <class F>
void for_experts(const ExpertRows& rows, const F& f) {
  std::vector<int64_t> ends = rows.host_ends;
  if (ends.empty()) {
    const Tensor host = rows.ends.to(at::kCPU, at::kLong);
    ends.assign(host.const_data_ptr<int64_t>(), host.const_data_ptr<int64_t>() + host.numel());
  }
  int64_t begin = 0;
  for (std::size_t expert = 0; expert < ends.size(); begin = ends[expert++]) {
    if (ends[expert] > begin) f(static_cast<int64_t>(expert), begin, ends[expert] - begin);
  }
}

}  // namespace

Tensor grouped_product(const Tensor& x, const Tensor& matrices, const ExpertRows& rows) {
  if (has_grouped_kernel(x, matrices.size(2), rows)) return at::_grouped_mm(x, matrices, rows.ends);
  Tensor y = at::empty({x.size(0), matrices.size(2)}, x.options());
  for_experts(rows, [&](int64_t expert, int64_t at, int64_t count) {
    Tensor target = y.narrow(0, at, count);
    const Tensor source = x.narrow(0, at, count), matrix = matrices.select(0, expert);
    if (prefers_onednn(source)) {
      target.copy_(product(source, matrix.t()));
    } else {
      at::mm_out(target, source, matrix);
    }
  });
  return y;
}

Tensor grouped_outer(const Tensor& a, const Tensor& b, const ExpertRows& rows) {
  if (has_grouped_kernel(b, a.size(1), rows)) return at::_grouped_mm(a.t(), b, rows.ends);
  Tensor products = at::zeros({rows.ends.size(0), a.size(1), b.size(1)}, a.options());
  for_experts(rows, [&](int64_t expert, int64_t at, int64_t count) {
    Tensor target = products.select(0, expert);
    at::mm_out(target, a.narrow(0, at, count).t(), b.narrow(0, at, count));
  });
  return products;
}

}  // namespace easydel::operations

#include "easydel/operations/moe/grouped_product.h"

#include <ATen/ATen.h>

#include "easydel/operations/linear/product.h"
#include "easydel/operations/moe/cuda_experts.h"

namespace easydel::operations {
namespace {

using at::Tensor;

// One kernel of torch's for all experts: bfloat16 on CUDA, rows of 16 bytes.
bool has_torch_kernel(const Tensor& a, int64_t out_features, const ExpertRows& rows) {
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
  if (cuda_experts::can_multiply(x, matrices.size(2), rows.ends)) {
    const Tensor turned = matrices.transpose(1, 2);
    const bool k_first = !turned.is_contiguous();
    return cuda_experts::grouped_product(x, k_first ? matrices : turned, k_first, rows.ends);
  }
  if (has_torch_kernel(x, matrices.size(2), rows)) return at::_grouped_mm(x, matrices, rows.ends);
  Tensor y = at::empty({x.size(0), matrices.size(2)}, x.options());
  std::vector<MatrixProduct> products;
  for_experts(rows, [&](int64_t expert, int64_t at, int64_t count) {
    products.push_back({y.narrow(0, at, count), x.narrow(0, at, count), matrices.select(0, expert)});
  });
  multiply_into(products);
  return y;
}

Tensor grouped_outer(const Tensor& a, const Tensor& b, const ExpertRows& rows) {
  if (cuda_experts::can_multiply(b, a.size(1), rows.ends)) return cuda_experts::grouped_outer(a, b, rows.ends);
  if (has_torch_kernel(b, a.size(1), rows)) return at::_grouped_mm(a.t(), b, rows.ends);
  const Tensor y = at::empty({rows.ends.size(0), a.size(1), b.size(1)}, a.options());
  std::vector<MatrixProduct> products;
  int64_t next = 0;
  const auto clear_until = [&](int64_t expert) {  // those without rows
    for (; next < expert; ++next) y.select(0, next).zero_();
    ++next;
  };
  for_experts(rows, [&](int64_t expert, int64_t at, int64_t count) {
    clear_until(expert);
    products.push_back({y.select(0, expert), a.narrow(0, at, count).t(), b.narrow(0, at, count)});
  });
  clear_until(y.size(0));
  multiply_into(products);
  return y;
}

}  // namespace easydel::operations

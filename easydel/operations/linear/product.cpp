#include "easydel/operations/linear/product.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <optional>

#include "easydel/operations/kernels/cpu/float_product.h"
#include "easydel/operations/threading/parallel.h"

namespace easydel::operations {
namespace {

using at::Tensor;
using kernels::FloatMatrix;
using kernels::FloatProduct;

constexpr int64_t kMinRows = 64;           // of a weight's input: below, memory decides
constexpr int64_t kUnitBytes = 128 << 10;  // of a weight, for a thread at a time: memory serves some threads late
constexpr int64_t kMinWork = 64 * 64 * 64;

bool is_own(const Tensor& x) {
  return x.scalar_type() == at::kFloat && x.is_cpu() && x.layout() == at::kStrided && !x.is_conj() && !x.is_neg() &&
         kernels::float_product_preferred() != nullptr;
}

bool are_some_vectors(const Tensor& rows, const Tensor& weight) {
  const auto fits = [](const Tensor& x) {
    return x.scalar_type() == at::kFloat && x.is_cpu() && x.layout() == at::kStrided && !x.is_neg();
  };
  if (rows.dim() < 1 || rows.size(-1) == 0 || weight.dim() != 2 || !fits(rows) || !fits(weight)) return false;
  const int64_t count = rows.numel() / rows.size(-1);
  return weight.is_contiguous() && weight.numel() > 0 && kernels::some_vectors_preferred() &&
         kernels::are_some_vectors(count, rows.size(-1), weight.size(0));
}

void multiply_some_vectors(const Tensor& rows, const Tensor& weight, const Tensor& bias, Tensor& y) {
  const Tensor x = rows.contiguous();
  const int64_t width = x.size(-1), outputs = weight.size(0);
  const kernels::GemvArgs args{weight.const_data_ptr(),
                               x.const_data_ptr(),
                               bias.defined() ? bias.const_data_ptr() : nullptr,
                               y.mutable_data_ptr(),
                               width,
                               x.numel() / width,
                               outputs};
  const auto kernel = kernels::some_vectors_preferred();
  const int64_t unit = std::max<int64_t>(4, kUnitBytes / static_cast<int64_t>(sizeof(float)) / width / 4 * 4);
  for_units(static_cast<std::size_t>((outputs + unit - 1) / unit), [&](std::size_t i) {
    const int64_t begin = static_cast<int64_t>(i) * unit;
    kernel(args, begin, std::min(outputs, begin + unit));
  });
}

bool is_own(const Factor& x) {
  return is_own(x.matrix) && (!x.index.defined() || (x.index.scalar_type() == at::kLong && x.index.is_contiguous()));
}

int64_t size(const Factor& x, int64_t dim) {
  return x.index.defined() && dim == x.dim ? x.index.size(0) : x.matrix.size(dim);
}

bool is_own(const MatrixProduct& p) {
  return is_own(p.a) && is_own(p.b) && is_own(p.c) && (p.c.stride(1) == 1 || p.c.stride(0) == 1) &&
         size(p.a, 0) * size(p.a, 1) * size(p.b, 1) >= kMinWork;
}

FloatMatrix matrix(const Factor& x) {
  const int64_t* index = x.index.defined() ? x.index.const_data_ptr<int64_t>() : nullptr;
  return {x.matrix.const_data_ptr<float>(), x.matrix.stride(0), x.matrix.stride(1), x.dim == 0 ? index : nullptr,
          x.dim == 1 ? index : nullptr};
}

FloatProduct float_product(const MatrixProduct& p) {
  float* c = p.c.mutable_data_ptr<float>();
  const float* start = p.adds ? c : nullptr;
  const int64_t m = size(p.a, 0), n = size(p.b, 1), k = size(p.a, 1), row = p.c.stride(0), column = p.c.stride(1);
  const FloatMatrix a = matrix(p.a), b = matrix(p.b);
  if (column == 1 || n == 1) return {a, b, start, row, c, row, m, n, k};
  return {b.transposed(), a.transposed(), start, column, c, column, n, m, k};
}

int64_t pieces(int64_t size, int64_t of) { return (size + of - 1) / of; }

// Adds the parts of a product: about `share` of multiplications each or less, and a multiple of `multiple` of them
// where it is large enough. As few as that allows, of blocks of columns rather than of rows: each part packs its own
// operands, and rows are packed for each block of columns anyway.
void cut(const FloatProduct& p, int64_t share, int64_t multiple, std::vector<FloatProduct>& parts) {
  constexpr int64_t kMinPartRows = 48, kColumns = 32;
  if (p.m == 0 || p.n == 0) return;
  const int64_t wanted = std::max<int64_t>(1, pieces(p.m * p.n * p.k, std::max<int64_t>(1, share)));
  int64_t across = std::min(wanted, pieces(p.n, kernels::kFloatProductColumns));
  const int64_t most = std::max<int64_t>(1, p.m / kMinPartRows), most_across = std::max(across, p.n / (2 * kColumns));
  int64_t down = std::clamp<int64_t>(pieces(wanted, across), 1, most);
  const auto fits = [&] { return down * across % multiple == 0 || down * across >= 8 * multiple; };
  while (down < most && !fits()) ++down;
  while (across < most_across && !fits()) ++across;
  const int64_t width = pieces(pieces(p.n, across), kColumns) * kColumns;
  for (int64_t column = 0; column < p.n; column += width) {
    for (int64_t i = 0; i < down; ++i) {
      const int64_t row = p.m * i / down;
      FloatProduct part = p;
      part.m = p.m * (i + 1) / down - row;
      part.n = std::min(width, p.n - column);
      part.a = p.a.from(row, 0);
      part.b = p.b.from(0, column);
      part.c += row * p.c_row + column;
      if (part.start) part.start += row * p.start_row + column;
      parts.push_back(part);
    }
  }
}

std::vector<FloatProduct> parts_of(const std::vector<FloatProduct>& products, int64_t threads) {
  const auto cost = [](const FloatProduct& p) { return p.m * p.n * p.k; };
  int64_t work = 0;
  for (const FloatProduct& p : products) work += cost(p);
  std::vector<FloatProduct> parts;
  // A few products: each is divided evenly. Many: parts of different sizes, the largest first.
  constexpr int64_t kMany = 4;
  const bool many = static_cast<int64_t>(products.size()) >= kMany * threads;
  for (const FloatProduct& p : products) {
    cut(p, many ? work / (kMany * threads) : pieces(cost(p), threads), many ? 1 : threads, parts);
  }
  std::stable_sort(parts.begin(), parts.end(), [&](const auto& x, const auto& y) { return cost(x) > cost(y); });
  return parts;
}

void run(const std::vector<FloatProduct>& products) {
  const auto kernel = kernels::float_product_preferred();
  const int64_t threads = at::in_parallel_region() ? 1 : at::get_num_threads();
  if (threads == 1) {
    for (const FloatProduct& p : products) {
      if (p.m > 0 && p.n > 0) kernel(p);
    }
    return;
  }
  const std::vector<FloatProduct> parts = parts_of(products, threads);
  for_units(parts.size(), [&](std::size_t i) { kernel(parts[i]); });
}

bool is_narrow(const Tensor& x) {
  if (!x.is_cpu() || x.layout() != at::kStrided) return false;
  return (x.scalar_type() == at::kBFloat16 && !kernels::multiplies_bfloat16()) ||
         (x.scalar_type() == at::kHalf && !kernels::multiplies_float16());
}

constexpr int64_t kMinWidenedRows = 4;  // of the smaller factor: widening the other one must pay

bool widens(const Tensor& a, const Tensor& b, int64_t m, int64_t n, int64_t k) {
  return is_narrow(a) && a.scalar_type() == b.scalar_type() && b.is_cpu() && b.layout() == at::kStrided &&
         std::min(m, n) >= kMinWidenedRows && m * n * k >= kMinWork;
}
bool widens(const Tensor& rows, const Tensor& weight) {
  return rows.dim() >= 2 && rows.size(-1) > 0 &&
         widens(rows, weight, rows.numel() / rows.size(-1), weight.size(0), rows.size(-1));
}

// By the fastest kernel for the sizes. All are float32; p.a has no index.
void multiply_on_this_thread(const MatrixProduct& p) {
  const Tensor &a = p.a.matrix, &b = p.b.matrix;
  Tensor c = p.c;
  const int64_t m = a.size(0), n = b.size(1), k = a.size(1);
  const bool are_rows = !p.adds && c.stride(1) == 1 && a.is_contiguous() && b.t().is_contiguous();
  if (are_rows && kernels::some_vectors_preferred() && kernels::are_some_vectors(m, k, n)) {
    kernels::some_vectors_preferred()(
        {b.const_data_ptr(), a.const_data_ptr(), nullptr, c.mutable_data_ptr(), k, m, c.stride(0)}, 0, n);
  } else if (std::min(m, n) >= kernels::float_product_rows() && is_own(p)) {
    kernels::float_product_preferred()(float_product(p));
  } else if (p.adds) {
    c.addmm_(a, b);
  } else {
    at::mm_out(c, a, b);
  }
}

// c [m, n] = a times b in float32, plus c with `adds`, plus `bias` [m, n] if given. The smaller factor is widened as a
// whole, the other in panels that stay in a thread's cache.
void multiply_widened(const Tensor& c, const Tensor& a, const Tensor& b, bool adds, const Tensor& bias) {
  const int64_t m = a.size(0), n = b.size(1), k = a.size(1);
  if (m > n) return multiply_widened(c.t(), b.t(), a.t(), adds, bias.defined() ? bias.t() : bias);
  constexpr int64_t kPanelElements = 1 << 18, kMinColumns = 32, kResultElements = 1 << 18;
  const int64_t threads = at::in_parallel_region() ? 1 : at::get_num_threads();
  int64_t panels = pieces(n, std::clamp<int64_t>(kPanelElements / k, std::min(n, kMinColumns), n));
  // As many for each thread.
  if (const int64_t even = pieces(panels, threads) * threads; n / even >= kMinColumns) panels = even;
  const Tensor wide = a.to(at::kFloat);
  const bool inference = c10::InferenceMode::is_enabled();  // else other threads may not write its tensors
  for_units(static_cast<std::size_t>(panels), [&](std::size_t i) {
    std::optional<c10::InferenceMode> mode;
    if (inference) mode.emplace();
    const int64_t at = n * static_cast<int64_t>(i) / panels, count = n * static_cast<int64_t>(i + 1) / panels - at;
    const Tensor panel = b.narrow(1, at, count).to(at::kFloat);
    const int64_t step = std::clamp<int64_t>(kResultElements / count, 1, m);
    for (int64_t row = 0; row < m; row += step) {
      const int64_t height = std::min(step, m - row);
      const auto part_of = [&](const Tensor& x) { return x.narrow(0, row, height).narrow(1, at, count); };
      const Tensor rows = wide.narrow(0, row, height), to = part_of(c);
      const bool in_place = c.scalar_type() == at::kFloat;
      // In c's order, so that it is rounded along its rows.
      Tensor part = in_place            ? to
                    : to.stride(0) == 1 ? at::empty({count, height}, at::kFloat).t()
                                        : at::empty({height, count}, at::kFloat);
      multiply_on_this_thread({part, rows, panel, in_place && adds});
      if (bias.defined()) part.add_(part_of(bias));
      if (in_place) continue;
      if (adds) part.add_(to);
      to.copy_(part);
    }
  });
}

void multiply_with_torch(const MatrixProduct& p) {
  const auto whole = [](const Factor& x) {
    return x.index.defined() ? x.matrix.index_select(x.dim, x.index) : x.matrix;
  };
  const Tensor a = whole(p.a), b = whole(p.b);
  Tensor c = p.c;
  if (widens(a, b, c.size(0), c.size(1), a.size(1))) {
    multiply_widened(c, a, b, p.adds, {});
  } else if (c.scalar_type() != a.scalar_type()) {
    const Tensor product = at::mm(a, b);
    p.adds ? c.add_(product) : c.copy_(product);
  } else if (p.adds) {
    c.addmm_(a, b);
  } else {
    at::mm_out(c, a, b);
  }
}

bool has_rows(const Tensor& x, int64_t count) {
  return is_own(x) && x.dim() >= 2 && x.size(-1) > 0 && x.numel() >= count * x.size(-1);
}

}  // namespace

bool has_own_kernel(const Tensor& rows) { return has_rows(rows, kMinRows); }

bool has_own_product(const Tensor& rows, const Tensor& weight) {
  return has_rows(rows, kernels::float_product_rows()) || are_some_vectors(rows, weight) || widens(rows, weight);
}

Tensor dense_product(const Tensor& rows, const Tensor& weight, const Tensor& bias) {
  const bool widened = widens(rows, weight), vectors = are_some_vectors(rows, weight);
  if (!widened && !vectors &&
      (!has_rows(rows, kernels::float_product_rows()) || !is_own(weight) || weight.numel() == 0))
    return at::linear(rows, weight, bias);
  const Tensor flat = rows.reshape({-1, rows.size(-1)}), given = bias.defined() ? bias.contiguous() : bias;
  std::vector<int64_t> shape = rows.sizes().vec();
  shape.back() = weight.size(0);
  Tensor y = at::empty(shape, rows.options());
  if (vectors) {
    multiply_some_vectors(flat, weight, given, y);
    return y;
  }
  if (widened) {
    multiply_widened(y.view({flat.size(0), weight.size(0)}), flat, weight.t(), /*adds=*/false,
                     given.defined() ? given.expand({flat.size(0), weight.size(0)}) : given);
    return y;
  }
  run({{matrix(flat), matrix(weight).transposed(), given.defined() ? given.const_data_ptr<float>() : nullptr, 0,
        y.mutable_data_ptr<float>(), weight.size(0), flat.size(0), weight.size(0), flat.size(1)}});
  return y;
}

Tensor matrix_product(const Tensor& a, const Tensor& b) {
  const Tensor c = at::empty({a.size(0), b.size(1)}, a.options());
  multiply_into({{c, a, b}});
  return c;
}

void multiply_into(const std::vector<MatrixProduct>& products) {
  std::vector<FloatProduct> own;
  for (const MatrixProduct& p : products) {
    if (is_own(p)) {
      own.push_back(float_product(p));
    } else {
      multiply_with_torch(p);
    }
  }
  if (!own.empty()) run(own);
}

std::vector<std::function<void()>> product_pieces(const std::vector<MatrixProduct>& products) {
  std::vector<std::function<void()>> pieces;
  std::vector<FloatProduct> own;
  for (const MatrixProduct& p : products) {
    if (is_own(p)) {
      own.push_back(float_product(p));
    } else {
      pieces.push_back([p] { multiply_with_torch(p); });
    }
  }
  const auto kernel = kernels::float_product_preferred();
  for (const FloatProduct& part : parts_of(own, at::get_num_threads())) pieces.push_back([=] { kernel(part); });
  return pieces;
}

}  // namespace easydel::operations

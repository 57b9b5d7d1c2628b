#include "easydel/operations/linear/product.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>
#include <string>

#include "easydel/operations/kernels/cpu/dispatch.h"
#include "easydel/operations/kernels/cpu/float_product.h"

namespace easydel::operations {
namespace {

using at::Tensor;

// [rows, columns] with the strides of a row-major matrix, a transposed one, a part of a wider one, or none of these.
enum class Layout { kRows, kColumns, kPart, kSpread };
constexpr Layout kLayouts[] = {Layout::kRows, Layout::kColumns, Layout::kPart, Layout::kSpread};

Tensor filled(int64_t rows, int64_t columns, Layout layout) {
  switch (layout) {
    case Layout::kRows: return at::randn({rows, columns});
    case Layout::kColumns: return at::randn({columns, rows}).t();
    case Layout::kPart: return at::randn({rows + 1, columns + 3}).narrow(0, 1, rows).narrow(1, 2, columns);
    case Layout::kSpread:
      return at::randn({2 * rows, 3 * columns}).slice(0, 0, 2 * rows, 2).slice(1, 0, 3 * columns, 3);
  }
  return {};
}

// Sums of k rounded products are off by no more than k roundings of the sum of their sizes.
void expect_product(const Tensor& c, const Tensor& a, const Tensor& b, const Tensor& start = {}) {
  Tensor wanted = at::mm(a.to(at::kDouble), b.to(at::kDouble));
  Tensor size = at::mm(a.to(at::kDouble).abs(), b.to(at::kDouble).abs());
  if (start.defined()) {
    wanted.add_(start);
    size.add_(start.abs());
  }
  const double rounding = std::numeric_limits<float>::epsilon() * (static_cast<double>(a.size(1)) / 2 + 2);
  EXPECT_TRUE(((c.to(at::kDouble) - wanted).abs() <= size * rounding).all().item<bool>())
      << a.sizes() << " " << a.strides() << " times " << b.sizes() << " " << b.strides() << " into " << c.strides();
}

struct Sizes {
  int64_t m, n, k;
};

int64_t draws() {
  const char* given = std::getenv("EASYDEL_DRAWS");
  return given ? std::stoll(given) : 60;
}

class FloatProduct : public testing::Test {
 protected:
  void SetUp() override {
    if (kernels::float_products().empty()) GTEST_SKIP() << "needs AVX2";
  }
};

void expect_odd_product(const Sizes& sizes, Layout left, Layout right) {
  const auto& [m, n, k] = sizes;
  const Tensor a = filled(m, k, left), b = filled(k, n, right);
  const Tensor whole = at::full({m + 2, n + 2}, 7.0f), c = whole.narrow(0, 1, m).narrow(1, 1, n);
  const Tensor before = at::randn({m, n}), bias = at::randn({n});
  for (const auto kernel : kernels::float_products()) {
    kernels::FloatProduct p{{a.const_data_ptr<float>(), a.stride(0), a.stride(1)},
                            {b.const_data_ptr<float>(), b.stride(0), b.stride(1)},
                            nullptr,
                            0,
                            c.mutable_data_ptr<float>(),
                            c.stride(0),
                            m,
                            n,
                            k};
    kernel(p);
    expect_product(c, a, b);
    p.start = bias.const_data_ptr<float>();
    kernel(p);
    expect_product(c, a, b, bias.expand({m, n}));
    c.copy_(before);
    p.start = c.const_data_ptr<float>();
    p.start_row = c.stride(0);
    kernel(p);
    expect_product(c, a, b, before);
    c.fill_(7.0f);
    EXPECT_TRUE((whole == 7.0f).all().item<bool>()) << "wrote beside the result";
  }
}

TEST_F(FloatProduct, MatchesFloat64ForOddSizesAndAllStrides) {
  at::manual_seed(0);
  for (const Sizes& sizes :
       {Sizes{1, 1, 1}, Sizes{1, 33, 5}, Sizes{12, 32, 16}, Sizes{13, 31, 17}, Sizes{7, 16, 384}, Sizes{61, 47, 385},
        Sizes{49, 515, 9}, Sizes{100, 1025, 40}, Sizes{25, 18, 1000}, Sizes{153, 200, 800}, Sizes{61, 1100, 401}}) {
    for (const Layout left : kLayouts) {
      for (const Layout right : kLayouts) expect_odd_product(sizes, left, right);
    }
  }
}

TEST_F(FloatProduct, MatchesFloat64ForDrawnSizes) {
  std::mt19937 random(7);
  at::manual_seed(7);
  const auto draw = [&](int64_t most) { return std::uniform_int_distribution<int64_t>(1, most)(random); };
  for (int64_t i = 0; i < draws(); ++i) {
    const Sizes sizes{draw(200), draw(i % 4 == 0 ? 1200 : 150), draw(i % 3 == 0 ? 900 : 100)};
    expect_odd_product(sizes, kLayouts[draw(4) - 1], kLayouts[draw(4) - 1]);
  }
}

TEST_F(FloatProduct, OfNothingIsTheStart) {
  for (const auto kernel : kernels::float_products()) {
    Tensor c = at::randn({14, 35});
    const Tensor before = c.clone();
    kernels::FloatProduct p{
        {nullptr, 0, 1}, {nullptr, 35, 1}, c.const_data_ptr<float>(), 35, c.mutable_data_ptr<float>(), 35, 14, 35, 0};
    kernel(p);
    EXPECT_TRUE(c.equal(before));
    p.start = nullptr;
    kernel(p);
    EXPECT_TRUE(c.equal(at::zeros_like(c)));
  }
}

TEST_F(FloatProduct, PropagatesNan) {
  Tensor a = at::ones({70, 40}), b = at::ones({40, 70});
  a[69][3] = std::numeric_limits<float>::infinity();
  b[39][69] = std::numeric_limits<float>::quiet_NaN();
  for (const auto kernel : kernels::float_products()) {
    const Tensor c = at::empty({70, 70});
    kernel({{a.const_data_ptr<float>(), 40, 1},
            {b.const_data_ptr<float>(), 70, 1},
            nullptr,
            0,
            c.mutable_data_ptr<float>(),
            70,
            70,
            70,
            40});
    EXPECT_TRUE(c.allclose(at::mm(a, b), 0, 0, /*equal_nan=*/true));
  }
}

TEST(SomeVectors, EqualTorchInEveryInstructionSet) {
  at::manual_seed(4);
  const kernels::KernelList list = kernels::available();
  int64_t tried = 0;
  for (int64_t i = 0; i < list.count; ++i) {
    const auto kernel = list.tables[i]->some_vectors;
    if (!kernel) continue;
    ++tried;
    for (const int64_t width : {1, 7, 8, 16, 31, 100, 577}) {
      for (const int64_t vectors : {5, 6, 7, 8, 63}) {
        for (const int64_t rows : {1, 3, 4, 33}) {
          const Tensor w = at::randn({rows, width}), x = at::randn({vectors, width}), bias = at::randn({rows});
          const Tensor whole = at::empty({vectors, rows}), parts = at::empty({vectors, rows});
          const auto args = [&](const Tensor& y) {
            return kernels::GemvArgs{w.const_data_ptr(),
                                     x.const_data_ptr(),
                                     bias.const_data_ptr(),
                                     y.mutable_data_ptr(),
                                     width,
                                     vectors,
                                     rows};
          };
          kernel(args(whole), 0, rows);
          for (int64_t row = 0; row < rows; ++row) kernel(args(parts), row, row + 1);
          EXPECT_TRUE(whole.equal(parts)) << "a sum must not depend on the rows beside it";
          const Tensor want = at::linear(x.to(at::kDouble), w.to(at::kDouble), bias.to(at::kDouble));
          EXPECT_TRUE(is_close(whole.to(at::kDouble), want, {1e-5, 1e-5 * std::sqrt(double(width))}))
              << list.tables[i]->instruction_set << " " << width << " " << vectors << " " << rows;
        }
      }
    }
  }
  if (tried == 0) GTEST_SKIP() << "needs AVX2";
}

TEST(SomeVectors, GiveTheSameBitsForAnyNumberOfThreadsAndAnyPartOfTheWeight) {
  if (!kernels::some_vectors_preferred()) GTEST_SKIP() << "torch's libraries multiply here, and promise less";
  const int threads = at::get_num_threads();
  at::manual_seed(5);
  const Tensor x = at::randn({9, 1000}), w = at::randn({301, 1000}), bias = at::randn({301});
  at::set_num_threads(1);
  const Tensor y = dense_product(x, w, bias);
  EXPECT_TRUE(y.narrow(1, 0, 150).equal(dense_product(x, w.narrow(0, 0, 150), bias.narrow(0, 0, 150))));
  EXPECT_TRUE(y.narrow(0, 0, 6).equal(dense_product(x.narrow(0, 0, 6), w, bias)));
  for (const int count : {2, 3}) {
    at::set_num_threads(count);
    EXPECT_TRUE(y.equal(dense_product(x, w, bias))) << count << " threads";
  }
  at::set_num_threads(threads);
}

TEST(MultiplyInto, GivesTheSameBitsForAnyNumberOfThreads) {
  if (!kernels::float_product_preferred()) GTEST_SKIP() << "torch's libraries multiply here, and promise less";
  const int threads = at::get_num_threads();
  std::vector<Tensor> results;
  for (const int count : {1, 2, 3}) {
    at::manual_seed(2);
    at::set_num_threads(count);
    const Tensor x = at::randn({700, 130}), w = at::randn({90, 130}), y = at::randn({700, 90});
    const Tensor d_w = at::ones({90, 130}), wide = at::empty({700, 1100});
    multiply_into({{d_w, y.t(), x, /*adds=*/true}, {wide, y, at::randn({90, 1100})}});
    results.push_back(at::cat({dense_product(x, w).flatten(), d_w.flatten(), wide.flatten()}));
    EXPECT_TRUE(results.front().equal(results.back())) << count << " threads";
  }
  at::set_num_threads(threads);
}

TEST(MultiplyInto, WritesAndAddsToMatricesOfAnyStrides) {
  at::manual_seed(3);
  for (const Layout layout : kLayouts) {
    const Tensor a = at::randn({130, 70}), b = at::randn({70, 90}), c = filled(130, 90, layout);
    const Tensor before = c.clone();
    multiply_into({{c, a, b, /*adds=*/true}});
    expect_product(c, a, b, before);
    multiply_into({{c, a, b}});
    expect_product(c, a, b);
  }
}

TEST(MultiplyInto, TakesRowsAndColumnsByIndex) {
  at::manual_seed(5);
  const auto pick = [](int64_t count, int64_t from) { return at::randint(from, {count}, at::kLong); };
  for (const Sizes& s : {Sizes{130, 90, 70}, Sizes{61, 545, 400}, Sizes{3, 2, 5}}) {
    const auto& [m, n, k] = s;
    for (const Layout left : kLayouts) {
      for (const Layout right : kLayouts) {
        for (const int64_t along_a : {0, 1}) {
          for (const int64_t along_b : {0, 1}) {
            const Factor a(filled(along_a == 0 ? 50 : m, along_a == 1 ? 50 : k, left), along_a,
                           pick(along_a == 0 ? m : k, 50));
            const Factor b(filled(along_b == 0 ? 40 : k, along_b == 1 ? 40 : n, right), along_b,
                           pick(along_b == 0 ? k : n, 40));
            const Tensor c = at::empty({m, n}), turned = at::empty({n, m});
            multiply_into({{c, a, b}, {turned.t(), a, b}});
            const Tensor whole_a = a.matrix.index_select(a.dim, a.index),
                         whole_b = b.matrix.index_select(b.dim, b.index);
            expect_product(c, whole_a, whole_b);
            expect_product(turned.t(), whole_a, whole_b);
          }
        }
      }
    }
  }
}

// Factors of 16 bits are exact in float32, so only the sum and the last rounding differ from float64.
struct NarrowProduct {
  Tensor a, b, wanted = at::mm(a.to(at::kDouble), b.to(at::kDouble)),
               size = at::mm(a.to(at::kDouble).abs(), b.to(at::kDouble).abs());

  void expect(const Tensor& c, const Tensor& start) const {
    const double last = c.scalar_type() == at::kBFloat16 ? 0x1p-8 : c.scalar_type() == at::kHalf ? 0x1p-11 : 0.0;
    const double sum = std::numeric_limits<float>::epsilon() * (static_cast<double>(a.size(1)) / 2 + 2);
    const Tensor all = wanted + start, error = (c.to(at::kDouble) - all).abs();
    EXPECT_TRUE((error <= all.abs() * last * 1.01 + (size + start.abs()) * sum).all().item<bool>())
        << c.scalar_type() << " " << a.sizes() << " " << a.strides() << " times " << b.sizes() << " " << b.strides();
  }
};

TEST(Product, Of16BitsIsRoundedOnceForAllStridesAndThreads) {
  at::manual_seed(6);
  const int threads = at::get_num_threads();
  const Tensor nothing = at::zeros({1, 1});
  for (const auto type : {at::kBFloat16, at::kHalf}) {
    if (type == at::kBFloat16 ? kernels::multiplies_bfloat16() : kernels::multiplies_float16()) continue;
    for (const auto& [m, n, k] : {Sizes{5, 700, 80}, Sizes{700, 5, 80}, Sizes{67, 129, 330}, Sizes{30, 400, 33}}) {
      for (const Layout left : kLayouts) {
        for (const Layout right : kLayouts) {
          at::set_num_threads(right == Layout::kPart ? 2 : 1);
          const NarrowProduct p{filled(m, k, left).to(type), filled(k, n, right).to(type)};
          const Tensor c = filled(m, n, right).to(type), before = c.clone(), bias = at::randn({n}).to(type);
          const Tensor sums = filled(m, n, left), sums_before = sums.clone();
          multiply_into({{c, p.a, p.b, /*adds=*/true}, {sums, p.a, p.b, /*adds=*/true}});
          p.expect(c, before);
          p.expect(sums, sums_before);
          multiply_into({{c, p.a, p.b}, {sums, p.a, p.b}});
          p.expect(c, nothing);
          p.expect(sums, nothing);
          p.expect(matrix_product(p.a, p.b), nothing);
          p.expect(dense_product(p.a, p.b.t(), bias), bias);
        }
      }
    }
  }
  at::set_num_threads(threads);
}

TEST(Product, Of16BitsRunsInInferenceMode) {
  const c10::InferenceMode guard;
  const int threads = at::get_num_threads();
  at::set_num_threads(2);
  const NarrowProduct p{at::randn({40, 64}).to(at::kBFloat16), at::randn({64, 900}).to(at::kBFloat16)};
  p.expect(dense_product(p.a, p.b.t()), at::zeros({1, 1}));
  at::set_num_threads(threads);
}

TEST(Product, AddsTheBiasToEachRow) {
  at::manual_seed(4);
  const Tensor x = at::randn({3, 50, 40}), w = at::randn({24, 40}), bias = at::randn({48}).slice(0, 0, 48, 2);
  const Tensor y = dense_product(x, w, bias);
  EXPECT_EQ(y.sizes(), (at::IntArrayRef{3, 50, 24}));
  expect_product(y.view({150, 24}), x.view({150, 40}), w.t(), bias.expand({150, 24}));
}

}  // namespace
}  // namespace easydel::operations

// One new token over its cache on a GPU against plain operations in float64 on the CPU.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "easydel/operations/kernels/cuda/fused.h"

namespace easydel::operations {
namespace {

using at::Tensor;
using cuda_fused::CacheSlots;

class CacheOnCuda : public testing::Test {
 protected:
  void SetUp() override {
    if (!at::hasCUDA()) GTEST_SKIP() << "this machine has no CUDA device";
    if (!cuda_fused::applies(at::zeros({1}, at::kCUDA))) GTEST_SKIP() << "this build has no GPU kernels";
    at::manual_seed(0);
  }
};

struct DrawnCache {
  int64_t batch, kv_heads, shared, head_size, capacity, slot;
  int64_t window = 0;
  bool starts = false;
  double softcap = 0;
};

// What the kernel should give, and the caches as they should be after it.
struct Expected {
  Tensor out, k, v;
};
Expected plain(const DrawnCache& d, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& k_cache,
               const Tensor& v_cache, const Tensor& starts, double scale) {
  Expected e{at::zeros({d.batch, d.kv_heads * d.shared, d.head_size}, at::kDouble), k_cache.clone(), v_cache.clone()};
  e.k.select(2, d.slot % d.capacity).copy_(k);
  e.v.select(2, d.slot % d.capacity).copy_(v);
  const Tensor keys = e.k.to(at::kDouble), values = e.v.to(at::kDouble), queries = q.to(at::kDouble);
  for (int64_t row = 0; row < d.batch; ++row) {
    int64_t first = std::max<int64_t>(0, d.slot + 1 - d.capacity);
    if (d.window > 0) first = std::max(first, d.slot + 1 - d.window);
    if (starts.defined()) first = std::max(first, starts[row].item<int64_t>());
    const Tensor places = at::arange(first, d.slot + 1).remainder(d.capacity);
    for (int64_t head = 0; head < d.kv_heads * d.shared; ++head) {
      const Tensor seen = keys[row][head / d.shared].index_select(0, places);
      Tensor scores = at::mv(seen, queries[row][head]) * scale;
      if (d.softcap > 0) scores = at::tanh(scores / d.softcap) * d.softcap;
      e.out[row][head].copy_(at::mv(values[row][head / d.shared].index_select(0, places).t(), at::softmax(scores, 0)));
    }
  }
  return e;
}

TEST_F(CacheOnCuda, GivesWhatPlainOperationsGive) {
  const std::vector<DrawnCache> all{
      {1, 8, 4, 64, 256, 0},
      {1, 8, 4, 64, 256, 130},
      {3, 2, 4, 64, 4096, 3000, 0, true},  // several parts
      {1, 2, 4, 64, 20000, 19999},
      {2, 2, 1, 128, 1000, 700},
      {2, 1, 8, 128, 1000, 999, 100},
      {2, 3, 3, 96, 300, 299, 0, true, 5.0},
      {2, 1, 16, 64, 600, 555},
      {1, 2, 2, 256, 2000, 1500},
      {2, 2, 2, 80, 64, 200, 64},     // a ring that has gone around
      {2, 1, 7, 16, 700, 5000, 700},  // likewise, in parts
      {2, 2, 5, 20, 500, 321},        // not in sixteen bytes
      {1, 1, 12, 36, 900, 899, 0, false, 2.0},
  };
  for (const DrawnCache& d : all) {
    for (const auto type : {at::kFloat, at::kHalf, at::kBFloat16}) {
      SCOPED_TRACE(testing::Message() << "batch " << d.batch << ", " << d.kv_heads << " x " << d.shared << " heads of "
                                      << d.head_size << ", slot " << d.slot << " of " << d.capacity << ", "
                                      << c10::toString(type));
      const double scale = 1.0 / std::sqrt(static_cast<double>(d.head_size));
      // q, k and v are columns of one product, so that their rows are apart.
      const Tensor qkv = at::randn({d.batch, d.kv_heads * (d.shared + 2), d.head_size}).to(type);
      const Tensor q = qkv.narrow(1, 0, d.kv_heads * d.shared), k = qkv.narrow(1, d.kv_heads * d.shared, d.kv_heads),
                   v = qkv.narrow(1, d.kv_heads * (d.shared + 1), d.kv_heads);
      const Tensor k_cache = at::randn({d.batch, d.kv_heads, d.capacity, d.head_size}).to(type);
      const Tensor v_cache = at::randn({d.batch, d.kv_heads, d.capacity, d.head_size}).to(type);
      const Tensor starts = d.starts ? at::randint(0, d.slot / 2 + 1, {d.batch}, at::kLong) : Tensor();
      const Expected want = plain(d, q, k, v, k_cache, v_cache, starts, scale);
      const Tensor there = qkv.to(at::kCUDA);
      CacheSlots slots{k_cache.to(at::kCUDA),
                       v_cache.to(at::kCUDA),
                       at::full({1}, d.slot, at::TensorOptions(at::kLong).device(at::kCUDA)),
                       d.starts ? starts.to(at::kCUDA) : Tensor(),
                       at::zeros({d.batch, q.size(1)}, at::TensorOptions(at::kInt).device(at::kCUDA)),
                       std::min(d.slot + 1 + 100, d.capacity),
                       d.window};
      ASSERT_TRUE(cuda_fused::can_attend_to_cache(there.narrow(1, 0, q.size(1)), slots));
      for (int again = 0; again < 2; ++again) {  // the counters are as before
        const Tensor got =
            cuda_fused::attend_to_cache(there.narrow(1, 0, q.size(1)), there.narrow(1, q.size(1), d.kv_heads),
                                        there.narrow(1, q.size(1) + d.kv_heads, d.kv_heads), slots, scale, d.softcap);
        const Tensor wide = got.cpu().to(at::kDouble);
        EXPECT_LT(((wide - want.out).norm() / want.out.norm()).item<double>(), type == at::kFloat  ? 1e-5
                                                                               : type == at::kHalf ? 1e-3
                                                                                                   : 5e-3);
      }
      EXPECT_TRUE(at::equal(slots.k.cpu(), want.k));
      EXPECT_TRUE(at::equal(slots.v.cpu(), want.v));
      EXPECT_EQ(slots.arrivals.abs().sum().item<int64_t>(), 0);
    }
  }
}

}  // namespace
}  // namespace easydel::operations

// Attention over pages on a GPU against plain operations in float64 on the CPU.
#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <limits>
#include <numeric>

#include "easydel/core/build_info.h"
#include "easydel/core/error.h"
#include "easydel/operations/kernels/cuda/fused.h"
#include "easydel/operations/kernels/cuda/paged/paged_attention.h"
#include "easydel/operations/quantized/coded_rows.h"
#include "tests/support/tensors.h"

#if EASYDEL_HAS_CUDA
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#endif

namespace easydel::operations::cuda_paged {
namespace {

using at::Tensor;

class PagedCuda : public testing::Test {
 protected:
  void SetUp() override {
    if (!at::hasCUDA()) GTEST_SKIP() << "this machine has no CUDA device";
    if (!cuda_fused::applies(at::zeros({1}, at::kCUDA))) GTEST_SKIP() << "this build has no GPU kernels";
    at::manual_seed(0);
  }
};

Tolerance rounding_of(at::ScalarType type) {
  return type == at::kFloat  ? Tolerance{1e-4, 1e-5}
         : type == at::kHalf ? Tolerance{0.005, 0.003}
                             : Tolerance{0.02, 0.015};
}

Tensor to_gpu(const Tensor& x) { return x.defined() ? x.to(at::kCUDA) : x; }

struct Shape {
  int64_t kv_heads = 2, shared = 4, head_size = 64, value_size = 64, page_size = 16;
};

// Sequences in pages of a random order, on the CPU. Whatever is not theirs is NaN, and entries of the table behind
// their pages name no page. Where the pages are stored in another type, k and v are what they hold.
struct Sequences {
  Shape shape;
  std::vector<int64_t> lengths;
  std::vector<Tensor> k, v;  // [length, K, H] of each
  Pages pages;
  Tensor table;  // [R, M] int32

  Sequences(const Shape& s, std::vector<int64_t> given, at::ScalarType type, std::optional<at::ScalarType> as = {})
      : shape(s), lengths(std::move(given)) {
    const at::ScalarType stored = as.value_or(type);
    const auto pages_of = [&](int64_t length) { return (length + s.page_size - 1) / s.page_size; };
    int64_t count = 3, widest = 0;
    for (const int64_t length : lengths) count += pages_of(length), widest = std::max(widest, pages_of(length));
    const auto nothing = [&](int64_t size) {
      const std::vector<int64_t> sizes{count, s.kv_heads, s.page_size, row_width(size, stored)};
      if (stored == at::kChar) return at::full(sizes, -1, stored);  // a scale of such bytes is NaN
      return at::full(sizes, std::numeric_limits<double>::quiet_NaN(), at::kFloat).to(stored);
    };
    pages.k = nothing(s.head_size);
    pages.v = nothing(s.value_size);
    table = at::full({static_cast<int64_t>(lengths.size()), widest + 2}, 1 << 30, at::kInt);
    const Tensor order = at::randperm(count);
    int64_t used = 0;
    for (std::size_t r = 0; r < lengths.size(); ++r) {
      const Tensor rows_k = to_stored(at::randn({lengths[r], s.kv_heads, s.head_size}).to(type), stored);
      const Tensor rows_v = to_stored(at::randn({lengths[r], s.kv_heads, s.value_size}).to(type), stored);
      k.push_back(from_stored(rows_k, stored == type ? type : at::kFloat));
      v.push_back(from_stored(rows_v, stored == type ? type : at::kFloat));
      for (int64_t first = 0; first < lengths[r]; first += s.page_size) {
        const int64_t page = order[used++].item<int64_t>(), rows = std::min(s.page_size, lengths[r] - first);
        table[static_cast<int64_t>(r)][first / s.page_size] = page;
        pages.k[page].narrow(1, 0, rows).copy_(rows_k.narrow(0, first, rows).transpose(0, 1));
        pages.v[page].narrow(1, 0, rows).copy_(rows_v.narrow(0, first, rows).transpose(0, 1));
      }
    }
  }
  Pages on_gpu() const { return {to_gpu(pages.k), to_gpu(pages.v)}; }
  Tensor int_lengths() const { return at::tensor(lengths, at::kLong).to(at::kInt); }
  int64_t longest() const { return *std::max_element(lengths.begin(), lengths.end()); }
};

// The last tokens q [T, N, H] of a sequence over its keys [S, K, H], in float64.
Tensor plain_attention(const Tensor& q, const Tensor& k, const Tensor& v, const DecodeOptions& options) {
  const int64_t tokens = q.size(0), keys = k.size(0), shared = q.size(1) / k.size(1);
  const auto heads_first = [&](const Tensor& x, int64_t times) {
    return x.to(at::kDouble).repeat_interleave(times, 1).transpose(0, 1);
  };
  Tensor scores = at::matmul(heads_first(q, 1), heads_first(k, shared).transpose(1, 2)) * options.scale;
  if (options.softcap > 0) scores = at::tanh(scores / options.softcap) * options.softcap;
  const Tensor at_q = at::arange(keys - tokens, keys).unsqueeze(1), at_k = at::arange(keys).unsqueeze(0);
  Tensor hidden = at_k > at_q;
  if (options.window > 0) hidden = hidden.logical_or(at_k <= at_q - options.window);
  scores = scores.masked_fill(hidden, -std::numeric_limits<double>::infinity());
  if (options.sinks.defined()) {
    const Tensor column = options.sinks.to(at::kDouble).view({-1, 1, 1}).expand({-1, tokens, 1});
    scores = at::cat({scores, column}, 2);
  }
  return at::matmul(scores.softmax(2).narrow(2, 0, keys), heads_first(v, shared)).transpose(0, 1);
}

// Decodes on the GPU, and compares. The sequences of length 0 are padding.
void expect_decoded(const Sequences& s, at::ScalarType type, const DecodeOptions& options) {
  const auto rows = static_cast<int64_t>(s.lengths.size());
  const Tensor q = at::randn({rows, s.shape.kv_heads * s.shape.shared, s.shape.head_size}).to(type);
  DecodeOptions there = options;
  there.sinks = to_gpu(options.sinks);
  const auto got = paged_decode(to_gpu(q), s.on_gpu(), to_gpu(s.table), to_gpu(s.int_lengths()), there);
  ASSERT_TRUE(got.has_value());
  ASSERT_EQ(got->scalar_type(), type);
  for (int64_t r = 0; r < rows; ++r) {
    SCOPED_TRACE(concat("row ", r, " of ", s.lengths[r], " keys"));
    if (s.lengths[r] == 0) {
      EXPECT_EQ((*got)[r].ne(0).sum().item<int64_t>(), 0);
      continue;
    }
    EXPECT_TRUE(is_close((*got)[r], plain_attention(q[r].unsqueeze(0), s.k[r], s.v[r], options)[0], rounding_of(type)));
  }
}

const std::vector<int64_t> kRagged{1, 15, 0, 16, 17, 100, 128, 333, 1088, 0};

TEST_F(PagedCuda, DecodesEveryHeadSizeAndGroup) {
  for (const auto type : {at::kBFloat16, at::kHalf, at::kFloat}) {
    for (const int64_t head_size : {64, 80, 96, 128, 256, 40}) {
      for (const int64_t shared : {1, 3, 4, 8, 12, 20}) {
        const int64_t page_size = shared == 4 ? 32 : shared == 8 ? 64 : 16;
        SCOPED_TRACE(concat(c10::toString(type), ", heads of ", head_size, ", groups of ", shared));
        const Sequences s({2, shared, head_size, head_size, page_size}, kRagged, type);
        expect_decoded(s, type, {.scale = 1.0 / std::sqrt(static_cast<double>(head_size)), .max_length = 1088});
      }
    }
  }
}

TEST_F(PagedCuda, DecodesWithWindowsCapsAndSinks) {
  for (const auto type : {at::kBFloat16, at::kHalf, at::kFloat}) {
    for (const int64_t page_size : {4, 16, 32, 64}) {
      const Sequences s({3, 4, 64, 64, page_size}, kRagged, type);
      for (const int64_t window : {0, 1, 5, 100, 1000}) {
        for (const double softcap : {0.0, 2.0}) {
          for (const bool sinks : {false, true}) {
            SCOPED_TRACE(concat(c10::toString(type), ", pages of ", page_size, ", window ", window, ", cap ", softcap,
                                ", sinks ", sinks));
            DecodeOptions options{.scale = 0.3, .softcap = softcap, .window = window};
            if (sinks) options.sinks = at::randn({12});
            expect_decoded(s, type, options);
          }
        }
      }
    }
  }
}

constexpr at::ScalarType kCoded[] = {at::kChar, at::kFloat8_e4m3fn, at::kFloat8_e5m2};

TEST_F(PagedCuda, DecodesCodesAndFloatsOfEightBits) {
  for (const auto stored : kCoded) {
    for (const auto type : {at::kBFloat16, at::kHalf, at::kFloat}) {
      for (const int64_t head_size : {64, 80, 96, 128, 256, 40}) {
        for (const int64_t shared : {1, 4, 12}) {
          const int64_t page_size = shared == 4 ? 32 : 16;
          SCOPED_TRACE(concat(c10::toString(stored), " for ", c10::toString(type), ", heads of ", head_size,
                              ", groups of ", shared));
          const Sequences s({2, shared, head_size, head_size, page_size}, kRagged, type, stored);
          const double scale = 1.0 / std::sqrt(static_cast<double>(head_size));
          expect_decoded(s, type, {.scale = scale, .max_length = 1088});
          if (head_size == 64)
            expect_decoded(s, type, {.scale = scale, .softcap = 2.0, .window = 100, .sinks = at::randn({2 * shared})});
        }
      }
    }
  }
}

// Whatever the launch was planned for, the result is the same.
TEST_F(PagedCuda, SplitsLongSequences) {
  for (const auto type : {at::kBFloat16, at::kFloat}) {
    const Sequences s({1, 4, 128, 128, 16}, {5000, 0, 700, 3}, type);
    for (const int64_t max_length : {5000, 100, 1 << 20}) {
      for (const int64_t window : {0, 2000}) {
        SCOPED_TRACE(concat(c10::toString(type), ", planned for ", max_length, ", window ", window));
        expect_decoded(s, type, {.scale = 0.2, .window = window, .sinks = at::randn({4}), .max_length = max_length});
      }
    }
  }
  // Many rows: no splits.
  std::vector<int64_t> lengths(200);
  for (std::size_t i = 0; i < lengths.size(); ++i) lengths[i] = static_cast<int64_t>(i * 7 % 300);
  expect_decoded(Sequences({8, 4, 64, 64, 16}, lengths, at::kBFloat16), at::kBFloat16,
                 {.scale = 0.125, .max_length = 300});
}

TEST_F(PagedCuda, DecodesLatentPages) {
  for (const auto type : {at::kBFloat16, at::kFloat}) {
    Sequences s({1, 16, 576, 576, 16}, {40, 333, 0, 1}, type);
    s.pages.v = s.pages.k.narrow(3, 0, 512);
    for (std::size_t r = 0; r < s.v.size(); ++r) s.v[r] = s.k[r].narrow(2, 0, 512);
    const Tensor k = to_gpu(s.pages.k), q = at::randn({4, 16, 576}).to(type);
    const auto got = paged_decode(to_gpu(q), {k, k.narrow(3, 0, 512)}, to_gpu(s.table), to_gpu(s.int_lengths()),
                                  {.scale = 0.05, .max_length = 333});
    ASSERT_TRUE(got.has_value());
    for (const int64_t r : {0, 1, 3})
      EXPECT_TRUE(is_close((*got)[r], plain_attention(q[r].unsqueeze(0), s.k[r], s.v[r], {.scale = 0.05})[0],
                           rounding_of(type)));
  }
}

// Bit for bit as encode_rows has them on the CPU.
TEST_F(PagedCuda, EncodesTokensInTheirSlots) {
  for (const auto type : {at::kBFloat16, at::kHalf, at::kFloat}) {
    for (const int64_t size : {64, 80, 128, 4}) {
      SCOPED_TRACE(concat(c10::toString(type), ", heads of ", size));
      const int64_t tokens = 37, page_size = 16;
      const Tensor both = at::randn({tokens, 3, 2 * size}).mul_(at::randn({tokens, 3, 1}).exp()).to(type);
      both[7].zero_();
      const Tensor rows_k = encode_rows(both.narrow(2, 0, size)), rows_v = encode_rows(both.narrow(2, size, size));
      const Tensor k_pages = at::randint(-100, 100, {9, 3, page_size, size + kScaleBytes}, at::kFloat).to(at::kChar);
      const Tensor v_pages = k_pages.neg(), slots = at::randperm(9 * page_size).narrow(0, 0, tokens).contiguous();
      slots[5] = -1;
      const Tensor k_there = to_gpu(k_pages), v_there = to_gpu(v_pages), both_there = to_gpu(both);
      ASSERT_TRUE(paged_store(both_there.narrow(2, 0, size), both_there.narrow(2, size, size), to_gpu(slots),
                              {k_there, v_there}));
      for (int64_t t = 0; t < tokens; ++t) {
        const int64_t slot = slots[t].item<int64_t>();
        if (slot < 0) continue;
        k_pages[slot / page_size].select(1, slot % page_size).copy_(rows_k[t]);
        v_pages[slot / page_size].select(1, slot % page_size).copy_(rows_v[t]);
      }
      EXPECT_TRUE(at::equal(k_there.cpu(), k_pages));
      EXPECT_TRUE(at::equal(v_there.cpu(), v_pages));
    }
  }
  // What is no number stays none.
  const Tensor pages = at::zeros({1, 1, 16, 68}, at::TensorOptions(at::kChar).device(at::kCUDA));
  const Tensor x = at::zeros({1, 1, 64}, at::kCUDA);
  x[0][0][3] = std::numeric_limits<double>::quiet_NaN();
  ASSERT_TRUE(paged_store(x, {}, to_gpu(at::tensor({2}, at::kLong)), {pages, pages}));
  EXPECT_TRUE(decode_rows(pages.cpu()[0][0][2], at::kFloat).isnan().all().item<bool>());
}

TEST_F(PagedCuda, RefusesWhatItHasNoKernelFor) {
  const auto decode = [](int64_t page_size, at::ScalarType type, int64_t size) {
    const Tensor q = at::zeros({1, 2, size}, at::TensorOptions(type).device(at::kCUDA));
    const Tensor pages = at::zeros({2, 1, page_size, size}, q.options()),
                 one = at::ones({1, 1}, at::kInt).to(at::kCUDA);
    return paged_decode(q, {pages, pages}, one, one.view({1}), {.max_length = 1}).has_value();
  };
  EXPECT_TRUE(decode(16, at::kHalf, 64));
  EXPECT_FALSE(decode(24, at::kHalf, 64));    // no power of two
  EXPECT_FALSE(decode(16, at::kDouble, 64));  // no such type
  EXPECT_FALSE(decode(16, at::kHalf, 1024));  // no such head size
}

TEST_F(PagedCuda, StoresTokensInTheirSlots) {
  for (const auto type : {at::kBFloat16, at::kFloat, at::kChar}) {
    for (const int64_t size : {64, 80, 7}) {
      for (const bool latent : {false, true}) {
        SCOPED_TRACE(concat(c10::toString(type), ", heads of ", size, ", latent ", latent));
        const int64_t tokens = 37, page_size = 16;
        const auto numbers = [&](at::IntArrayRef shape) { return at::randint(-100, 100, shape, at::kFloat).to(type); };
        const Tensor both = numbers({tokens, 3, 2 * size}), k = both.narrow(2, 0, size), v = both.narrow(2, size, size);
        const Tensor k_pages = numbers({9, 3, page_size, size}), v_pages = numbers({9, 3, page_size, size});
        const Tensor slots = at::randperm(9 * page_size).narrow(0, 0, tokens).contiguous();
        slots[5] = -1;
        const Tensor k_there = to_gpu(k_pages), v_there = to_gpu(v_pages), both_there = to_gpu(both);
        ASSERT_TRUE(paged_store(both_there.narrow(2, 0, size), latent ? Tensor() : both_there.narrow(2, size, size),
                                to_gpu(slots), {k_there, v_there}));
        for (int64_t t = 0; t < tokens; ++t) {
          const int64_t slot = slots[t].item<int64_t>();
          if (slot < 0) continue;
          k_pages[slot / page_size].select(1, slot % page_size).copy_(k[t]);
          if (!latent) v_pages[slot / page_size].select(1, slot % page_size).copy_(v[t]);
        }
        EXPECT_TRUE(at::equal(k_there.cpu(), k_pages));
        EXPECT_TRUE(at::equal(v_there.cpu(), v_pages));
      }
    }
  }
  // Other types are converted.
  const Tensor pages = at::zeros({1, 1, 16, 8}, at::TensorOptions(at::kBFloat16).device(at::kCUDA));
  ASSERT_TRUE(paged_store(at::ones({1, 1, 8}, at::kCUDA), {}, to_gpu(at::tensor({3}, at::kLong)), {pages, pages}));
  EXPECT_EQ(pages.sum().item<double>(), 8);
}

Tensor starts_of(const std::vector<int64_t>& lengths) {
  std::vector<int64_t> starts{0};
  for (const int64_t length : lengths) starts.push_back(starts.back() + length);
  return at::tensor(starts, at::kLong).to(at::kInt);
}

TEST_F(PagedCuda, GathersTheKeysOfSequences) {
  for (const int64_t size : {64, 7}) {
    const Sequences s({3, 1, size, size, 16}, {5, 0, 100, 16, 33, 0}, at::kBFloat16);
    const Tensor starts = to_gpu(starts_of(s.lengths));
    const Tensor got = gather_pages(to_gpu(s.pages.k), to_gpu(s.table), starts, 5 + 100 + 16 + 33, at::kBFloat16);
    EXPECT_TRUE(at::equal(got.cpu(), at::cat(s.k)));
  }
  for (const auto stored : kCoded) {
    for (const int64_t size : {64, 12}) {
      SCOPED_TRACE(concat(c10::toString(stored), ", heads of ", size));
      const Sequences s({3, 1, size, size, 16}, {5, 0, 100, 16}, at::kBFloat16, stored);
      const Tensor got =
          gather_pages(to_gpu(s.pages.v), to_gpu(s.table), to_gpu(starts_of(s.lengths)), 5 + 100 + 16, at::kBFloat16);
      EXPECT_TRUE(at::equal(got.cpu(), at::cat(s.v).to(at::kBFloat16)));
    }
  }
}

void expect_prefilled(const Sequences& s, const std::vector<int64_t>& tokens, at::ScalarType type, int64_t window) {
  const int64_t total = std::accumulate(tokens.begin(), tokens.end(), int64_t{0});
  const Tensor q = at::randn({total, s.shape.kv_heads * s.shape.shared, s.shape.head_size}).to(type);
  std::vector<Tensor> new_k, new_v;
  for (std::size_t r = 0; r < tokens.size(); ++r) {
    new_k.push_back(s.k[r].narrow(0, s.lengths[r] - tokens[r], tokens[r]));
    new_v.push_back(s.v[r].narrow(0, s.lengths[r] - tokens[r], tokens[r]));
  }
  Prefill p;
  p.q = to_gpu(q), p.k = to_gpu(at::cat(new_k)).to(type), p.v = to_gpu(at::cat(new_v)).to(type);
  p.cu_q = to_gpu(starts_of(tokens)), p.cu_k = to_gpu(starts_of(s.lengths)), p.table = to_gpu(s.table);
  p.max_q = *std::max_element(tokens.begin(), tokens.end()), p.max_k = s.longest();
  p.total_k = std::accumulate(s.lengths.begin(), s.lengths.end(), int64_t{0});
  p.fresh = tokens == s.lengths;
  p.scale = 0.1, p.window = window;
  const auto got = paged_prefill(p, s.on_gpu());
  ASSERT_TRUE(got.has_value());
  int64_t row = 0;
  for (std::size_t r = 0; r < tokens.size(); ++r) {
    SCOPED_TRACE(concat("sequence ", r, ": ", tokens[r], " of ", s.lengths[r], " tokens"));
    const Tensor want = plain_attention(q.narrow(0, row, tokens[r]), s.k[r], s.v[r], {.scale = 0.1, .window = window});
    EXPECT_TRUE(is_close(got->narrow(0, row, tokens[r]), want, rounding_of(type)));
    row += tokens[r];
  }
}

TEST_F(PagedCuda, PrefillsPromptsAndChunks) {
  for (const auto type : {at::kBFloat16, at::kHalf}) {
    for (const int64_t size : {64, 80, 128, 256}) {
      const Sequences s({2, 4, size, size, 16}, {5, 200, 33, 130}, type);
      for (const int64_t window : {0, 7, 64}) {
        SCOPED_TRACE(concat(c10::toString(type), ", heads of ", size, ", window ", window));
        expect_prefilled(s, s.lengths, type, window);
        expect_prefilled(s, {5, 64, 1, 100}, type, window);
      }
    }
  }
}

TEST_F(PagedCuda, PrefillsFromCodesAndFloatsOfEightBits) {
  for (const auto stored : kCoded) {
    for (const auto type : {at::kBFloat16, at::kHalf}) {
      SCOPED_TRACE(concat(c10::toString(stored), " for ", c10::toString(type)));
      expect_prefilled(Sequences({2, 4, 128, 128, 16}, {5, 200, 33, 130}, type, stored), {5, 64, 1, 100}, type, 64);
    }
  }
}

TEST_F(PagedCuda, PrefillLeavesOtherCasesToTheCaller) {
  const auto applies = [](at::ScalarType type, double softcap, const Tensor& sinks) {
    Prefill p;
    p.q = at::zeros({4, 2, 64}, at::TensorOptions(type).device(at::kCUDA)), p.k = p.v = p.q;
    p.cu_q = p.cu_k = to_gpu(at::tensor({0, 4}, at::kInt));
    p.max_q = p.max_k = p.total_k = 4;
    p.fresh = true, p.softcap = softcap, p.sinks = sinks;
    return paged_prefill(p, {}).has_value();
  };
  EXPECT_TRUE(applies(at::kHalf, 0, {}));
  EXPECT_FALSE(applies(at::kFloat, 0, {}));
  EXPECT_FALSE(applies(at::kHalf, 30, {}));
  EXPECT_FALSE(applies(at::kHalf, 0, at::zeros({2}, at::kCUDA)));
}

TEST_F(PagedCuda, FindsTheLargestOfEachRow) {
  for (const auto type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    for (const int64_t rows : {1, 3, 256, 1500}) {
      for (const int64_t width : {1, 9, 1001, 32768}) {
        SCOPED_TRACE(concat(c10::toString(type), " [", rows, ", ", width, "]"));
        const Tensor x = at::rand({rows, width}).to(type);
        x[0].fill_(-std::numeric_limits<double>::infinity());
        const Tensor most = x.to(at::kFloat).amax(1, true);
        // The first of equal ones: of 16-bit numbers many are.
        const Tensor first = at::where(x.to(at::kFloat).eq(most), at::arange(width), width).amin(1);
        EXPECT_TRUE(at::equal(argmax_rows(to_gpu(x)).cpu(), first));
      }
    }
  }
  const Tensor x = at::zeros({2, 3000});
  x[0][70] = std::numeric_limits<double>::quiet_NaN();
  x[0][2000] = 5;
  x[1][2999] = 1e-30;
  EXPECT_TRUE(at::equal(argmax_rows(to_gpu(x)).cpu(), at::tensor({70, 2999}, at::kLong)));
  const Tensor wide = at::randn({4, 2002}).to(at::kCUDA);
  EXPECT_TRUE(at::equal(argmax_rows(wide.narrow(1, 1, 2000)), wide.narrow(1, 1, 2000).contiguous().argmax(1)));
}

TEST_F(PagedCuda, AppendsTheLargestOfEachRow) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    for (const int64_t rows : {4, 600}) {  // in parts, and whole
      SCOPED_TRACE(concat(c10::toString(type), " ", rows, " rows"));
      const Tensor x = at::randn({rows, 3001}).to(type);
      x[0].fill_(-kInfinity);
      x[1][70] = std::numeric_limits<double>::quiet_NaN();
      x[2][2000] = kInfinity;
      x[3].fill_(-kInfinity);
      const Tensor running = at::rand({rows}) < 0.7;
      running[0] = running[1] = running[2] = true;
      running[3] = false;
      const Tensor lengths = at::randint(0, 9, {rows}), invalid = at::rand({rows}) < 0.1;
      invalid.narrow(0, 0, 4).fill_(false);
      const Tensor tokens = to_gpu(at::full({rows, 7}, -5, at::kLong));
      const GrowingRows growing{to_gpu(running), tokens.select(1, 3), to_gpu(lengths), to_gpu(invalid), 99};
      const auto chosen = append_largest(to_gpu(x), growing);
      ASSERT_TRUE(chosen.has_value());
      const Tensor want = at::where(running, argmax_rows(to_gpu(x)).cpu(), 99);
      EXPECT_TRUE(at::equal(chosen->cpu(), want));
      const Tensor after = tokens.cpu();
      EXPECT_TRUE(at::equal(after.select(1, 3), want));
      EXPECT_EQ(after.eq(-5).sum().item<int64_t>(), 6 * rows);  // other columns are untouched
      EXPECT_TRUE(at::equal(growing.lengths.cpu(), lengths + running));
      Tensor wanted_invalid = invalid.clone();
      wanted_invalid[0] = wanted_invalid[1] = true;
      EXPECT_TRUE(at::equal(growing.invalid.cpu(), wanted_invalid));
    }
  }
  const Tensor bits = to_gpu(at::ones({2}, at::kBool)), counts = to_gpu(at::zeros({2}, at::kLong));
  EXPECT_FALSE(append_largest(to_gpu(at::zeros({2, 9})), {bits, counts.to(at::kInt), counts, bits, 0}).has_value());
  EXPECT_FALSE(append_largest(to_gpu(at::zeros({3, 9})), {bits, counts, counts, bits, 0}).has_value());
}

// The number lies between the sums of the weights before the token and up to it; log-probabilities and ranks are those
// of float64.
TEST_F(PagedCuda, DrawsATokenOfEachRow) {
  for (const auto type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    for (const int64_t width : {1, 9, 1001, 4096, 151936}) {
      for (const int64_t skipped : {0, 1}) {  // rows that do not begin at a whole pack
        SCOPED_TRACE(concat(c10::toString(type), ", ", width, " wide, from ", skipped));
        const int64_t rows = 16;
        const Tensor all = (3 * at::randn({rows, width + skipped})).to(type);
        const Tensor x = all.narrow(1, skipped, width).to(at::kDouble);
        const Tensor temperature = at::tensor({0.0, 0.5, 1.0, 2.0}, at::kDouble).repeat({rows / 4});
        const Tensor uniform = at::rand({rows}, at::kDouble);
        uniform[4] = 0.0;
        uniform[6] = 1.0 - 0x1p-48;
        const std::optional<Tensor> drawn =
            sample_rows(to_gpu(all).narrow(1, skipped, width), to_gpu(at::stack({temperature, uniform})), true);
        ASSERT_TRUE(drawn);
        const Tensor got = drawn->cpu(), tokens = got[0].to(at::kLong).unsqueeze(1);
        ASSERT_TRUE(tokens.ge(0).logical_and(tokens.lt(width)).all().item<bool>());
        const Tensor own = x.gather(1, tokens);
        EXPECT_TRUE(is_close(got[1], x.log_softmax(1).gather(1, tokens).squeeze(1), {1e-5, 2e-5}));
        EXPECT_TRUE(at::equal(got[2].to(at::kLong), x.gt(own).sum(1) + 1));
        const Tensor greedy = temperature.eq(0).unsqueeze(1);
        const Tensor first = at::where(x.eq(x.amax(1, true)), at::arange(width), width).amin(1, true);
        EXPECT_TRUE(at::equal(tokens.masked_select(greedy), first.masked_select(greedy)));
        const Tensor weights = (x / temperature.clamp_min(0.1).unsqueeze(1)).softmax(1), sums = weights.cumsum(1);
        const Tensor up_to = sums.gather(1, tokens), before = up_to - weights.gather(1, tokens),
                     u = uniform.unsqueeze(1);
        EXPECT_TRUE(before.le(u + 1e-5).logical_and(up_to.ge(u - 1e-5)).logical_or(greedy).all().item<bool>());
      }
    }
  }
  const double infinity = std::numeric_limits<double>::infinity();
  const Tensor x = at::zeros({3, 700}),
               settings = at::full({2, 3}, 0.5, at::TensorOptions(at::kDouble).device(at::kCUDA));
  x[0][600] = std::numeric_limits<double>::quiet_NaN();
  x[1].fill_(-infinity);
  x[2].fill_(-infinity);
  x[2][699] = -5;
  EXPECT_TRUE(
      at::equal((*sample_rows(to_gpu(x), settings, false))[0].cpu(), at::tensor({-1.0, -1.0, 699.0}, at::kDouble)));
}

#if EASYDEL_HAS_CUDA
// A captured step, replayed for other tokens, lengths and pages.
TEST_F(PagedCuda, ReplaysInAGraph) {
  for (const auto type : {at::kBFloat16, at::kFloat}) {
    for (const int64_t max_length : {64, 4096}) {
      SCOPED_TRACE(concat(c10::toString(type), ", planned for ", max_length));
      const auto options = at::TensorOptions(type).device(at::kCUDA);
      const Tensor k_pages = at::randn({40, 2, 16, 64}, options), v_pages = at::randn({40, 2, 16, 64}, options);
      const Tensor q = at::zeros({3, 8, 64}, options), k = at::zeros({3, 2, 64}, options), v = at::zeros_like(k);
      const Tensor slots = to_gpu(at::full({3}, -1, at::kLong)), lengths = to_gpu(at::zeros({3}, at::kInt));
      const Tensor table = to_gpu(at::zeros({3, 13}, at::kInt));
      Tensor out, ids;
      const auto step = [&] {
        paged_store(k, v, slots, {k_pages, v_pages});
        out = *paged_decode(q, {k_pages, v_pages}, table, lengths, {.scale = 0.125, .max_length = max_length});
        ids = argmax_rows(out.flatten(1));
      };
      at::cuda::CUDAGraph graph;
      {
        c10::cuda::getCurrentCUDAStream().synchronize();
        const c10::cuda::CUDAStreamGuard guard(c10::cuda::getStreamFromPool());
        step();
        c10::cuda::getCurrentCUDAStream().synchronize();
        graph.capture_begin();
        step();
        graph.capture_end();
      }
      const Tensor captured = out, captured_ids = ids;
      for (const int64_t length : {1, 16, 17, 64, 200}) {
        for (const Tensor& x : {q, k, v}) x.normal_();
        const Tensor pages = at::randperm(39).narrow(0, 0, 39).view({3, 13}).to(at::kInt);
        table.copy_(pages);
        const std::vector<int64_t> now{length, 0, std::max<int64_t>(1, length / 2)};
        lengths.copy_(at::tensor(now, at::kLong));
        std::vector<int64_t> places;
        for (int64_t r = 0; r < 3; ++r) {
          const int64_t last = now[static_cast<std::size_t>(r)] - 1;
          places.push_back(last < 0 ? -1 : pages[r][last / 16].item<int64_t>() * 16 + last % 16);
        }
        slots.copy_(at::tensor(places, at::kLong));
        graph.replay();
        const Tensor replayed = captured.clone(), replayed_ids = captured_ids.clone();
        step();
        EXPECT_TRUE(at::equal(replayed, out)) << length;
        EXPECT_TRUE(at::equal(replayed_ids, ids)) << length;
        const Tensor kept = k_pages.cpu()[places[0] / 16].select(1, places[0] % 16);
        EXPECT_TRUE(at::equal(kept, k[0].cpu())) << length;
      }
    }
  }
}
#endif

}  // namespace
}  // namespace easydel::operations::cuda_paged

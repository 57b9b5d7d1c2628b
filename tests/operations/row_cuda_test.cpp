// Products with few vectors, and the norms, gates, rotations and sums around them in one launch, against the same as
// separate operations on the CPU in float64; experts of few tokens; weights drawn on a GPU.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "easydel/core/random.h"
#include "easydel/operations/kernels/cuda/fused.h"
#include "easydel/operations/kernels/cuda/rows/row_products.h"
#include "easydel/operations/linear/linear.h"
#include "easydel/operations/moe/moe.h"
#include "tests/operations/relative_error.h"

namespace easydel::operations {
namespace {

using at::Tensor;
using cuda_fused::RowMap;

class RowsOnCuda : public testing::Test {
 protected:
  void SetUp() override {
    if (!at::hasCUDA()) GTEST_SKIP() << "this machine has no CUDA device";
    at::manual_seed(0);
  }
};

Tensor in_double(const Tensor& x) { return x.defined() ? x.cpu().to(at::kDouble) : x; }

// A matrix on the GPU: dense, or codes and what they stand for.
struct DrawnMap {
  PackedCodes codes;
  Tensor dense;  // on the CPU, float64
  RowMap map;
};
enum class MapKind { Dense, Int8, Nf4, NestedNf4, Int4 };

void draw_map(DrawnMap& to, MapKind kind, int64_t out, int64_t in, at::ScalarType type, bool bias) {
  const auto on_gpu = at::TensorOptions(at::kCUDA);
  if (bias) to.map.bias = at::randn({out}, on_gpu.dtype(type));
  if (kind == MapKind::Dense) {
    to.map.weight = at::randn({out, in}, on_gpu.dtype(type)) / std::sqrt(static_cast<double>(in));
    to.dense = in_double(to.map.weight);
    return;
  }
  if (kind == MapKind::Int8) {
    to.codes.codes = at::randint(-128, 128, {out, in}, at::kChar);
    to.codes.scales = at::rand({out}) + 0.1;
  } else {
    to.codes.format = kind == MapKind::Int4 ? PackedFormat::kInt4 : PackedFormat::kNf4;
    to.codes.codes = at::randint(0, 256, {out, in / 2}, at::kByte);
    to.codes.scales = (at::rand({out, in / 32}) + 0.1).to(kind == MapKind::Int4 ? at::kHalf : at::kFloat);
    if (kind == MapKind::NestedNf4) {
      to.codes.scales = at::randint(0, 256, {out, in / 32}, at::kByte);
      to.codes.scale_map = at::rand({256}) + 0.1;
      to.codes.outer_block = 16;
      to.codes.outer_scales = at::rand({(to.codes.scales.numel() + 15) / 16}) + 0.1;
      to.codes.scale_offset = at::full({1}, 0.25F);
    }
  }
  to.dense = unpack(to.codes).to(at::kDouble);
  for (Tensor* t :
       {&to.codes.codes, &to.codes.scales, &to.codes.scale_map, &to.codes.outer_scales, &to.codes.scale_offset}) {
    if (t->defined()) *t = t->to(at::kCUDA);
  }
  to.map.codes = &to.codes;
}

Tensor mapped(const Tensor& x, const DrawnMap& m) {
  const Tensor y = at::matmul(x, m.dense.t());
  return m.map.bias.defined() ? y + in_double(m.map.bias) : y;
}
Tensor normed_rows(const Tensor& x, const Tensor& weight, const RmsNormOptions& options) {
  return x * at::rsqrt(x.square().mean(-1, true) + options.eps) * (in_double(weight) + options.weight_offset);
}

constexpr MapKind kAllKinds[] = {MapKind::Dense, MapKind::Int8, MapKind::Nf4, MapKind::NestedNf4, MapKind::Int4};

void for_each_case(const std::function<void(MapKind, at::ScalarType, int64_t vectors, int64_t width)>& f) {
  for (const MapKind kind : kAllKinds) {
    for (const auto type : {at::kFloat, at::kHalf, at::kBFloat16}) {
      for (const int64_t width : {64, 2048, 8192, 1056}) {
        for (const int64_t vectors : {1, 2, 3, 4}) {
          if (kind != MapKind::Dense && vectors > 1) continue;
          if (vectors * width * c10::elementSize(type) > (96 << 10)) continue;  // more than a block keeps
          SCOPED_TRACE(testing::Message()
                       << "kind " << static_cast<int>(kind) << " " << type << " " << vectors << " x " << width);
          f(kind, type, vectors, width);
        }
      }
    }
  }
}

TEST_F(RowsOnCuda, SeveralMatricesWithBiasesAndANorm) {
  for_each_case([](MapKind kind, at::ScalarType type, int64_t vectors, int64_t width) {
    const auto options = at::TensorOptions(at::kCUDA).dtype(type);
    const Tensor x = at::randn({vectors, width}, options) + 0.5, weight = at::randn({width}, options);
    DrawnMap m[3];
    const int64_t rows[] = {width == 8192 ? 256 : 33, 7, 64};
    for (int i = 0; i < 3; ++i) draw_map(m[i], kind, rows[i], width, type, i == 1);
    for (const bool norm : {false, true}) {
      AroundProducts around;
      around.norm_options = {.eps = 1e-5, .weight_offset = 1.0, .multiply_before_cast = norm};
      if (norm) around.norm = weight;
      ASSERT_TRUE(cuda_fused::can_multiply_rows(x, {m[0].map, m[1].map, m[2].map}, around));
      const auto got = cuda_fused::multiply_rows(x, {m[0].map, m[1].map, m[2].map}, around);
      const Tensor read = norm ? normed_rows(in_double(x), weight, around.norm_options) : in_double(x);
      for (int i = 0; i < 3; ++i) EXPECT_LT(error_of(got[i], mapped(read, m[i])), 2 * tolerance_of(type)) << i;
    }
  });
}

TEST_F(RowsOnCuda, AGateOrAResidual) {
  for_each_case([](MapKind kind, at::ScalarType type, int64_t vectors, int64_t width) {
    const auto options = at::TensorOptions(at::kCUDA).dtype(type);
    const Tensor x = at::randn({vectors, width}, options) * (kind == MapKind::Dense ? 1.0 : 0.02);
    DrawnMap gate, up;
    draw_map(gate, kind, 50, width, type, true);
    draw_map(up, kind, 50, width, type, false);
    for (const char* name : {"silu", "gelu_pytorch_tanh"}) {
      const Activation& act = find_activation(name);
      const auto got = cuda_fused::multiply_rows(x, {gate.map, up.map}, {.gate = &act});
      ASSERT_EQ(got.size(), 1U);
      EXPECT_LT(error_of(got[0], act(mapped(in_double(x), gate)) * mapped(in_double(x), up)), 2 * tolerance_of(type))
          << name;
    }
    EXPECT_FALSE(cuda_fused::can_multiply_rows(x, {gate.map, up.map}, {.gate = &find_activation("relu2")}));
    for (const int64_t rows : {50, 51, 2048}) {
      DrawnMap m;
      draw_map(m, kind, rows, width, type, false);
      const Tensor residual = at::randn({vectors, 2 * rows}, options).narrow(1, rows / 2, rows);  // strided
      const auto got = cuda_fused::multiply_rows(x, {m.map}, {.residual = residual});
      EXPECT_LT(error_of(got[0], in_double(residual) + mapped(in_double(x), m)), tolerance_of(type)) << rows;
    }
  });
}

TEST_F(RowsOnCuda, RotatedHeads) {
  for_each_case([](MapKind kind, at::ScalarType type, int64_t vectors, int64_t width) {
    const auto options = at::TensorOptions(at::kCUDA).dtype(type);
    for (const bool in_rows : {false, true}) {  // of a batch, or tokens of one row
      const Tensor x =
          at::randn(in_rows ? at::IntArrayRef{vectors, 1, width} : at::IntArrayRef{1, vectors, width}, options);
      for (const double part : {1.0, 0.5}) {
        for (const RopeStyle style : {RopeStyle::Half, RopeStyle::Interleaved}) {
          DrawnMap q, k, v;
          draw_map(q, kind, 96, width, type, true);
          draw_map(k, kind, 48, width, type, false);
          draw_map(v, kind, 48, width, type, false);
          const auto frequencies = rope_frequencies({.partial_rotary_factor = part}, 24, 64);
          const Tensor positions = at::randint(0, 1000, {x.size(0), x.size(1)}, at::kLong);
          const RopeTable table = rope_table(frequencies, positions.to(at::kCUDA), at::kFloat);
          const RopeTable exact = rope_table(frequencies, positions, at::kDouble);
          const AroundProducts around{.rope = &table, .rope_style = style, .head_size = 24, .rotated = 2};
          ASSERT_TRUE(cuda_fused::can_multiply_rows(x, {q.map, k.map, v.map}, around));
          const auto got = cuda_fused::multiply_rows(x, {q.map, k.map, v.map}, around);
          const auto heads = [](const Tensor& y) { return y.unflatten(-1, {-1, 24}); };
          const double allowed = 2 * tolerance_of(type) + 2e-4;  // angles in float32
          EXPECT_LT(error_of(heads(got[0]), apply_rotary(heads(mapped(in_double(x), q)), exact, style)), allowed);
          EXPECT_LT(error_of(heads(got[1]), apply_rotary(heads(mapped(in_double(x), k)), exact, style)), allowed);
          EXPECT_LT(error_of(got[2], mapped(in_double(x), v)), tolerance_of(type));
        }
      }
    }
  });
}

TEST_F(RowsOnCuda, LeavesOtherCasesToTheCaller) {
  const auto options = at::TensorOptions(at::kCUDA).dtype(at::kBFloat16);
  DrawnMap m;
  draw_map(m, MapKind::Dense, 32, 64, at::kBFloat16, false);
  const auto can = [&](const Tensor& x, const AroundProducts& around = {}) {
    return cuda_fused::can_multiply_rows(x, {m.map}, around);
  };
  EXPECT_TRUE(can(at::randn({4, 64}, options)));
  EXPECT_FALSE(can(at::randn({5, 64}, options)));
  EXPECT_FALSE(can(at::randn({1, 64}, options.dtype(at::kFloat))));
  EXPECT_FALSE(can(at::randn({1, 64}, options.dtype(at::kDouble))));
  EXPECT_FALSE(can(at::randn({1, 64})));
  DrawnMap wide;
  draw_map(wide, MapKind::Dense, 8, 8192, at::kFloat, false);
  EXPECT_FALSE(cuda_fused::can_multiply_rows(at::randn({4, 8192}, options.dtype(at::kFloat)), {wide.map}, {}));
  EXPECT_FALSE(can(at::randn({1, 64}, options), {.norm = at::ones({64}, options.dtype(at::kFloat))}));
  EXPECT_FALSE(can(at::randn({1, 64}, options), {.residual = at::ones({1, 32}, options.dtype(at::kFloat))}));
  const Tensor weight = m.map.weight.clone().requires_grad_();
  EXPECT_FALSE(linears_around(at::randn({1, 64}, options), {{weight, {}}}, {}));
}

TEST_F(RowsOnCuda, ExpertsOfFewTokens) {
  for (const auto type : {at::kFloat, at::kHalf, at::kBFloat16}) {
    for (const int64_t tokens : {1, 2, 8}) {
      for (const int64_t top_k : {1, 3, 8}) {
        for (const auto& [width, inner] : {std::pair<int64_t, int64_t>{64, 24}, {2048, 768}}) {
          SCOPED_TRACE(testing::Message() << type << " " << tokens << " tokens, " << top_k << " experts, " << width);
          const int64_t count = 9;
          const auto options = at::TensorOptions(at::kCUDA).dtype(type);
          const Tensor x = at::randn({tokens, width}, options);
          const StackedExperts experts{at::randn({count, 2 * inner, width}, options) / std::sqrt(double(width)),
                                       at::randn({count, width, inner}, options) / std::sqrt(double(inner)),
                                       &find_activation("silu")};
          const Routing routing =
              route(at::randn({tokens, count}, options.dtype(at::kFloat)), {.top_k = top_k, .renormalize = true});
          const auto got = experts_of_few_tokens(x, routing, experts);
          ASSERT_TRUE(got.has_value());
          Tensor want = at::zeros({tokens, width}, at::kDouble);
          for (int64_t t = 0; t < tokens; ++t) {
            for (int64_t k = 0; k < top_k; ++k) {
              const int64_t e = routing.experts[t][k].item<int64_t>();
              const Tensor both = at::matmul(in_double(experts.gate_up[e]), in_double(x[t]));
              const Tensor act = at::silu(both.narrow(0, 0, inner)) * both.narrow(0, inner, inner);
              want[t] += routing.weights[t][k].item<double>() * at::matmul(in_double(experts.down[e]), act);
            }
          }
          EXPECT_LT(error_of(*got, want), 2 * tolerance_of(type));

          // The norm before and the sum after change nothing but their place.
          AroundProducts around;
          around.norm = at::randn({width}, options);
          around.norm_options = {.eps = 1e-5, .weight_offset = 1.0, .multiply_before_cast = tokens > 1};
          around.residual = at::randn({tokens, width}, options);
          const auto added = experts_of_few_tokens(x, routing, experts, around);
          ASSERT_TRUE(added.has_value());
          const auto normed = experts_of_few_tokens(rms_norm(x, around.norm, around.norm_options), routing, experts);
          EXPECT_LT(error_of(*added, in_double(around.residual) + in_double(*normed)), 2 * tolerance_of(type));
        }
      }
    }
  }
  const auto options = at::TensorOptions(at::kCUDA).dtype(at::kBFloat16);
  const Routing routing = route(at::randn({9, 4}, options.dtype(at::kFloat)), {.top_k = 2});
  const StackedExperts experts{at::randn({4, 16, 32}, options), at::randn({4, 32, 8}, options),
                               &find_activation("silu")};
  EXPECT_FALSE(experts_of_few_tokens(at::randn({9, 32}, options), routing, experts));  // more than a few
}

TEST_F(RowsOnCuda, HeadsAreNormalizedAndRotatedInOneLaunch) {
  for (const auto type : {at::kFloat, at::kHalf, at::kBFloat16}) {
    for (const int64_t head : {32, 64, 128}) {
      for (const auto& [batch, tokens] : {std::pair<int64_t, int64_t>{1, 1}, {3, 1}, {2, 5}}) {
        SCOPED_TRACE(testing::Message() << type << " heads of " << head << ", " << batch << " x " << tokens);
        const auto options = at::TensorOptions(at::kCUDA).dtype(type);
        const Tensor qkv = at::randn({batch, tokens, 9 * head}, options).unflatten(-1, {9, head});
        const Tensor q = qkv.narrow(2, 0, 6) * 3.0, k = qkv.narrow(2, 6, 2);
        const HeadNorms norms{
            at::randn({head}, options), at::randn({head}, options), {.eps = 1e-5, .weight_offset = 1}};
        const auto frequencies = rope_frequencies({}, head, 64);
        const Tensor positions = at::randint(0, 1000, {batch, tokens}, at::kLong);
        const RopeTable table = rope_table(frequencies, positions.to(at::kCUDA), at::kFloat);
        const RopeTable exact = rope_table(frequencies, positions, at::kDouble);
        const auto got = norm_and_rotate(q, k, norms, table);
        ASSERT_TRUE(got.has_value());
        const double allowed = 2 * tolerance_of(type) + 2e-4;  // angles in float32
        EXPECT_LT(error_of(got->first, apply_rotary(normed_rows(in_double(q), norms.q, norms.options), exact)),
                  allowed);
        EXPECT_LT(error_of(got->second, apply_rotary(normed_rows(in_double(k), norms.k, norms.options), exact)),
                  allowed);
        const RopeTable part{table.cos.narrow(-1, 0, head / 4), table.sin.narrow(-1, 0, head / 4)};
        EXPECT_FALSE(norm_and_rotate(q, k, norms, part).has_value());  // a part of each head
        EXPECT_FALSE(norm_and_rotate(q, k, norms, table, RopeStyle::Interleaved).has_value());
      }
    }
  }
}

TEST_F(RowsOnCuda, GradientsOfNorms) {
  for (const auto type : {at::kFloat, at::kHalf, at::kBFloat16}) {
    for (const auto weight_type : {type, at::kFloat}) {
      for (const auto& [rows, width] :
           {std::pair<int64_t, int64_t>{1, 8}, {1000, 64}, {37, 2048}, {3, 8200}, {5, 20480}, {9, 12}, {2, 40000}}) {
        for (const double offset : {0.0, 1.0}) {
          SCOPED_TRACE(testing::Message() << type << " " << weight_type << " " << rows << " x " << width);
          const auto options = at::TensorOptions(at::kCUDA);
          const RmsNormOptions norm{.eps = 1e-5, .weight_offset = offset, .multiply_before_cast = offset == 1.0};
          const Tensor base = at::randn({2, rows, width}, options.dtype(type)) + 0.3;
          const Tensor x = base.transpose(0, 1).detach().requires_grad_();  // strided
          const Tensor weight = at::randn({width}, options.dtype(weight_type)).requires_grad_();
          const Tensor d_y = at::randn({rows, 2, width}, options.dtype(type));
          const Tensor y = rms_norm(x, weight, norm);
          const auto got = torch::autograd::grad({y}, {x, weight}, {d_y});
          const Tensor x_exact = in_double(x.detach()).requires_grad_();
          const Tensor w_exact = in_double(weight.detach().to(type)).requires_grad_();
          const Tensor y_exact = x_exact * at::rsqrt(x_exact.square().mean(-1, true) + norm.eps) * (w_exact + offset);
          const auto want = torch::autograd::grad({y_exact}, {x_exact, w_exact}, {in_double(d_y)});
          EXPECT_LT(error_of(y.detach(), y_exact.detach()), tolerance_of(type));
          EXPECT_LT(error_of(got[0], want[0]), tolerance_of(type));
          EXPECT_LT(error_of(got[1], want[1]), tolerance_of(type));
          EXPECT_EQ(got[1].scalar_type(), weight_type);
        }
      }
    }
  }
}

TEST_F(RowsOnCuda, DrawnWeightsAreTheCpus) {
  const RandomKey key = RandomKey(7).fold("weight");
  for (const auto type : {at::kFloat, at::kHalf, at::kBFloat16}) {
    const Tensor here = at::empty({37, 5, 129}, type),
                 there = at::empty({37, 5, 129}, at::TensorOptions(at::kCUDA).dtype(type));
    fill_normal(here, key, 0.5, 0.02);
    ASSERT_TRUE(cuda_fused::draw_normal(there, key, 0.5, 0.02, nullptr));
    const double allowed = type == at::kFloat ? 1e-6 : type == at::kHalf ? 1e-3 : 8e-3;
    EXPECT_LE((there.cpu().to(at::kDouble) - here.to(at::kDouble)).abs().max().item<double>(), allowed);
    const Region region{{37, 5, 129}, {3, 1, 64}};
    const Tensor part = at::empty({20, 3, 50}, there.options());
    ASSERT_TRUE(cuda_fused::draw_normal(part, key, 0.5, 0.02, &region));
    EXPECT_TRUE(at::equal(part, there.narrow(0, 3, 20).narrow(1, 1, 3).narrow(2, 64, 50)));
  }
  EXPECT_FALSE(cuda_fused::draw_normal(at::empty({3}), key, 0, 1, nullptr));
}

}  // namespace
}  // namespace easydel::operations

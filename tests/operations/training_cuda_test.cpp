// What training alone needs of a GPU.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "easydel/core/memory.h"
#include "easydel/operations/attention/attention.h"
#include "easydel/operations/checkpoint.h"
#include "easydel/operations/kernels/cuda/float8_casts.h"
#include "easydel/operations/kernels/cuda/fused.h"
#include "easydel/operations/linear/float8.h"
#include "easydel/operations/linear/linear.h"
#include "easydel/operations/linear/trained.h"
#include "easydel/operations/loss/loss.h"
#include "easydel/operations/recurrent/causal_conv.h"
#include "easydel/operations/recurrent/recurrences.h"
#include "easydel/operations/rope.h"
#include "tests/operations/float8_expected.h"
#include "tests/support/tensors.h"

namespace easydel::operations {
namespace {

using at::Tensor;

class TrainingOnCuda : public testing::Test {
 protected:
  void SetUp() override {
    if (!at::hasCUDA()) GTEST_SKIP() << "this machine has no CUDA device";
    at::manual_seed(0);
  }
};

Tensor there(const Tensor& t) { return t.to(at::kCUDA); }

// Rows a little longer than one launch's, odd numbers of them, and rows that are parts of wider ones.
TEST_F(TrainingOnCuda, MatricesAreRoundedToFloat8AsByFormula) {
  for (const auto type : {at::kBFloat16, at::kHalf, at::kFloat}) {
    for (const auto& [rows, width] : {std::pair<int64_t, int64_t>{1, 16}, {37, 144}, {300, 4096}, {515, 14336}}) {
      const Tensor wide = (at::randn({rows, width + 16}) * at::exp(at::randn({rows, 1}) * 2)).to(type);
      const Tensor x = there(wide).narrow(1, 0, width), here = wide.narrow(1, 0, width).to(at::kFloat);
      if (!cuda_fused::can_cast_float8(x)) {
        ADD_FAILURE() << "no kernel for " << x.sizes();
        continue;
      }
      const auto same = [&](const std::pair<Tensor, Tensor>& got, const Tensor& want) {
        const Tensor back = got.first.cpu().to(at::kFloat) * got.second.cpu();
        return is_close(back.narrow(1, 0, want.size(1)), want, {1e-6, 0});
      };
      Tensor columns;
      EXPECT_TRUE(same(cuda_fused::float8_rows(x, {at::kFloat8_e4m3fn, true}, &columns),
                       rounded_to_float8(here, Float8Scales::Rowwise, 1)));
      EXPECT_TRUE(at::equal(columns.cpu(), here.abs().amax(0)));
      const int64_t padded = (rows + 15) / 16 * 16;
      const auto transposed = cuda_fused::float8_columns(x, columns, {at::kFloat8_e4m3fn, true}, padded);
      EXPECT_TRUE(same(transposed, rounded_to_float8(here, Float8Scales::Rowwise, 0).t()));
      EXPECT_EQ(transposed.first.view(at::kByte).narrow(1, rows, padded - rows).sum().item<int64_t>(), 0);
      const Tensor largest = cuda_fused::float8_largest(x);
      EXPECT_EQ(largest.item<float>(), here.abs().max().item<float>());
      for (const bool gradient : {false, true}) {
        const cuda_fused::Float8Rounding rounding{gradient ? at::kFloat8_e5m2 : at::kFloat8_e4m3fn, false};
        const Tensor want = rounded_to_float8(here, Float8Scales::Tensorwise, 0, gradient);
        EXPECT_TRUE(same(cuda_fused::float8_cast(x, largest, rounding), want));
        EXPECT_TRUE(same(cuda_fused::float8_columns(x, largest, rounding, padded), want.t()));
      }
    }
  }
}

TEST_F(TrainingOnCuda, Float8ProductsAreThoseOfRoundedMatrices) {
  for (const auto scales : {Float8Scales::Rowwise, Float8Scales::Tensorwise}) {
    for (const auto& [rows, in, out] : {std::array<int64_t, 3>{5, 32, 48}, {300, 256, 512}, {1024, 4096, 1024}}) {
      for (const auto& [type, weight_type] :
           {std::pair(at::kBFloat16, at::kBFloat16), {at::kBFloat16, at::kFloat}, {at::kFloat, at::kFloat}}) {
        SCOPED_TRACE(testing::Message() << rows << " " << in << " " << out << " " << type << " " << weight_type
                                        << (scales == Float8Scales::Rowwise ? " rowwise" : " tensorwise"));
        const Tensor x = there(at::randn({rows, in}).to(type)).requires_grad_();
        const Tensor weight = there((at::randn({out, in}) * 0.1).to(weight_type)).requires_grad_();
        const Tensor d_y = there(at::randn({rows, out}).to(type));
        const Float8Expected want = float8_expected(x, weight, d_y, scales);
        const Tensor y = float8_linear(x, weight, scales);
        y.backward(d_y);
        // The tensor cores add with 14 bits at least, and the result may be rounded to bfloat16.
        const auto near = [](const Tensor& a, const Tensor& b) {
          return is_close(a, b, {0.01, 0.005 * b.abs().max().item<double>()});
        };
        EXPECT_TRUE(near(y, want.y));
        EXPECT_TRUE(near(x.grad(), want.d_x));
        EXPECT_TRUE(near(weight.grad(), want.d_weight));
        EXPECT_EQ(weight.grad().scalar_type(), weight_type);
      }
    }
  }
}

// In packs and one by one, with heads that are parts of wider rows, and a rest that is not rotated.
TEST_F(TrainingOnCuda, QueriesAndKeysAreRotatedTogether) {
  const auto far = at::TensorOptions(at::kCUDA);
  for (const auto type : {at::kBFloat16, at::kFloat}) {
    for (const auto& [head, part] : {std::pair<int64_t, double>{64, 1.0}, {128, 0.5}, {48, 0.5}, {20, 1.0}}) {
      for (const RopeStyle style : {RopeStyle::Half, RopeStyle::Interleaved}) {
        for (const int64_t batches : {1, 2}) {
          SCOPED_TRACE(testing::Message() << head << " " << type << " " << static_cast<int>(style) << batches);
          const auto frequencies = rope_frequencies({.partial_rotary_factor = part}, head, 64);
          const Tensor qkv = at::randn({2, 7, 6, head}).to(type);
          const Tensor positions = batches == 1 ? at::arange(7, at::kLong) : at::randint(60, {2, 7}, at::kLong);
          const Differentiable f = [&](const std::vector<Tensor>& in) {
            const RopeTable table = rope_table(frequencies, positions.to(in[0].device()), at::kFloat);
            const auto [q, k] = apply_rotary(in[0].narrow(2, 0, 4), in[0].narrow(2, 4, 2), table, style);
            return at::cat({q, k * 2}, 2);
          };
          const Tolerance tolerance = type == at::kFloat ? Tolerance{1e-5, 1e-6} : Tolerance{0.01, 0.01};
          EXPECT_TRUE(is_close(f({qkv.to(far.device())}), f({qkv}), tolerance));
          EXPECT_TRUE(is_close(gradients_of(f, {qkv.to(far.device())})[0], gradients_of(f, {qkv})[0], tolerance));
        }
      }
    }
  }
}

TEST_F(TrainingOnCuda, LabelsOnTheCpuLeaveRowsOut) {
  const Tensor hidden = at::randn({6, 10, 32}), weight = at::randn({50, 32});
  Tensor labels = at::randint(50, {6, 10}, at::kLong);
  labels.masked_fill_(at::rand({6, 10}) < 0.6, -100);
  for (const Reduction reduction : {Reduction::Mean, Reduction::Sum, Reduction::None}) {
    const CrossEntropyOptions options{.z_loss = 0.01, .reduction = reduction};
    const Differentiable f = [&](const std::vector<Tensor>& in) {
      return linear_cross_entropy(in[0], in[1], {}, labels, options).loss;  // on the CPU
    };
    const std::vector<Tensor> far{there(hidden), there(weight)};
    EXPECT_TRUE(is_close(f(far), f({hidden, weight}), {1e-4, 1e-5}));
    const auto got = gradients_of(f, far), want = gradients_of(f, {hidden, weight});
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(is_close(got[i], want[i], {1e-4, 1e-5})) << i;
  }
}

// A checkpoint that keeps attention's result does not compute it again, and has the same gradients.
TEST_F(TrainingOnCuda, CheckpointsKeepAttention) {
  const auto half = at::TensorOptions(at::kBFloat16).device(at::kCUDA);
  const Tensor q = at::randn({2, 70, 4, 40}, half), k = at::randn({2, 70, 2, 40}, half);
  const Tensor v = at::randn({2, 70, 2, 40}, half);
  for (const bool documents : {false, true}) {
    AttentionOptions options;
    if (documents) options.mask.q_segment_ids = at::div(at::arange(70), 30, "floor").expand({2, 70}).contiguous();
    const auto attend = [&](const TensorList& in) -> TensorList {
      return {attention(in[0], in[1], in[2], options).out};
    };
    std::vector<std::vector<Tensor>> results;
    for (const char* policy : {"none", "nothing_saveable", "checkpoint_dots", "mlp_notsaveable"}) {
      TensorList in;
      for (const Tensor& t : {q, k, v}) in.push_back(t.clone().requires_grad_());
      const Tensor out = checkpoint(attend, in, CheckpointPolicy(policy))[0];
      out.backward(at::sin(at::arange(out.numel(), half.dtype(at::kFloat))).view(out.sizes()).to(at::kBFloat16));
      results.push_back({out.detach(), in[0].grad(), in[1].grad(), in[2].grad()});
      for (std::size_t i = 0; i < results[0].size(); ++i)
        EXPECT_TRUE(is_close(results.back()[i], results[0][i], {0.02, 0.02})) << policy << " " << i << documents;
    }
  }
}

struct BlockShape {
  at::ScalarType type, stored;  // of x and of the weights
  int64_t width, inner;
  bool halves, bias, transposed;
};

// A norm, products, the gate, a product and the residual sum: each by itself, or as training has them.
Differentiable block_of(const BlockShape& s, const char* act_name, const RmsNormOptions& options, bool together) {
  return [=](const std::vector<Tensor>& in) -> Tensor {
    const Activation& act = find_activation(act_name);
    const LinearStorage storage{s.transposed};
    const auto map = [&](std::size_t weight, std::size_t bias) {
      return LinearMap{s.transposed ? in[weight].t().contiguous() : in[weight], s.bias ? in[bias] : Tensor(), "",
                       storage};
    };
    std::vector<LinearMap> first{map(2, 5)};
    if (!s.halves) first.push_back(map(3, 6));
    const LinearMap last = map(4, 7);
    if (together) {
      const auto normed = normed_linears(in[0], in[1], options, first);
      const auto y = normed ? gated_linear(normed->results, act, last) : std::nullopt;
      EXPECT_TRUE(normed && y);
      return normed && y ? normed->x + *y : Tensor();
    }
    const auto product = [&](const Tensor& x, const LinearMap& m) {
      return operations::linear(x, m.weight, m.bias, "", storage);
    };
    const Tensor x = rms_norm(in[0], in[1], options);
    const Tensor inner = s.halves ? gated_activation(product(x, first[0]), act)
                                  : gated_activation(product(x, first[0]), product(x, first[1]), act);
    return in[0] + product(inner, last);
  };
}

TEST_F(TrainingOnCuda, BlocksOfOneNodeAreThoseOfTheirOperations) {
  const auto bf16 = at::kBFloat16, half = at::kHalf, wide = at::kFloat;
  for (const BlockShape& s : {BlockShape{wide, wide, 64, 96, false, false, false},
                              {wide, wide, 64, 96, true, true, true},
                              {bf16, bf16, 256, 640, false, false, false},
                              {bf16, wide, 256, 640, false, true, true},
                              {half, wide, 72, 50, true, true, false},
                              {bf16, bf16, 2048, 512, true, false, false}}) {
    for (const char* act : {"silu", "gelu_pytorch_tanh"}) {
      SCOPED_TRACE(testing::Message() << s.type << " " << s.stored << " " << s.width << " " << s.halves << s.bias
                                      << s.transposed << " " << act);
      const RmsNormOptions options{.weight_offset = s.bias ? 1.0 : 0.0, .multiply_before_cast = s.halves};
      const int64_t outputs = s.halves ? 2 * s.inner : s.inner;
      const auto weight = [&](int64_t out, int64_t in) {
        return there((at::randn({out, in}) / std::sqrt(static_cast<double>(in))).to(s.stored));
      };
      const std::vector<Tensor> inputs{there(at::randn({2, 37, s.width}).to(s.type)),
                                       there((at::randn({s.width}) * 0.2 + 1).to(s.stored)),
                                       weight(outputs, s.width),
                                       weight(outputs, s.width),
                                       weight(s.width, s.inner),
                                       there(at::randn({outputs}).to(s.stored)),
                                       there(at::randn({outputs}).to(s.stored)),
                                       there(at::randn({s.width}).to(s.stored))};
      const Differentiable together = block_of(s, act, options, true), apart = block_of(s, act, options, false);
      const double rounding = s.type == wide ? 1e-5 : s.type == half ? 2e-3 : 0.02;
      const auto near = [&](const Tensor& a, const Tensor& b) {
        return is_close(a, b, {0, rounding * (b.defined() ? b.abs().max().item<double>() : 0)});
      };
      std::vector<Tensor> leaves;  // without gradients the operations are apart
      for (const Tensor& input : inputs) leaves.push_back(input.clone().requires_grad_());
      EXPECT_TRUE(near(together(leaves), apart(leaves)));
      const auto got = gradients_of(together, inputs), want = gradients_of(apart, inputs);
      for (std::size_t i = 0; i < got.size(); ++i) {
        EXPECT_TRUE(near(got[i], want[i])) << "gradient " << i;
        if (want[i].defined()) {
          EXPECT_EQ(got[i].scalar_type(), want[i].scalar_type());
        }
      }
    }
  }
}

TEST_F(TrainingOnCuda, GatedProductsAreNotKept) {
  const auto options = at::TensorOptions(at::kBFloat16).device(at::kCUDA);
  const Tensor gate = at::randn({1024, 4096}, options).requires_grad_(), up = at::randn({1024, 4096}, options);
  const Tensor weight = at::randn({512, 4096}, options).requires_grad_();
  operations::linear(gate.detach(), weight.detach());  // the library's own memory
  const int64_t before = used_memory(gate.device());
  const auto y = gated_linear({gate, up}, find_activation("silu"), {weight, {}});
  ASSERT_TRUE(y);
  EXPECT_LE(used_memory(gate.device()) - before, y->numel() * 2 + (1 << 20));
}

TEST_F(TrainingOnCuda, AdamwIsTorchs) {
  for (const auto type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    std::vector<std::vector<Tensor>> lists(4);
    for (int64_t i = 0; i < 70;
         ++i) {  // more than one launch takes, of sizes around a pack and a block, or not aligned
      const int64_t size = i == 3 ? 70000 : i == 4 ? 8192 : i + 1;
      for (std::size_t list = 0; list < 4; ++list) {
        const Tensor memory = there(at::randn({size + 1}).to(type));
        lists[list].push_back(memory.narrow(0, i % 5 == 0 ? 1 : 0, size));
      }
      lists[3].back().abs_();
    }
    std::vector<std::vector<Tensor>> want(4);
    for (std::size_t list = 0; list < 4; ++list) {
      for (const Tensor& t : lists[list]) want[list].push_back(t.to(at::kFloat));
    }
    const cuda_fused::AdamwStep step{0.01, 0.9, 0.99, 1e-6, 0.1, 3};
    const std::vector<Tensor> counts(70, at::full({}, 3.0, at::TensorOptions(at::kFloat).device(at::kCUDA)));
    at::_fused_adamw_(want[0], want[1], want[2], want[3], {}, counts, step.rate, step.b1, step.b2, step.decay, step.eps,
                      /*amsgrad=*/false, /*maximize=*/false);
    cuda_fused::adamw(lists[0], lists[1], lists[2], lists[3], step);
    const double rounding = type == at::kFloat ? 1e-5 : type == at::kHalf ? 1e-3 : 0.008;
    for (std::size_t list = 0; list < 4; ++list) {
      for (std::size_t i = 0; i < 70; ++i)
        EXPECT_TRUE(is_close(lists[list][i], want[list][i], {rounding, 1e-6})) << type << " " << list << " " << i;
    }
  }
}

// With strips of tokens that end in the middle, channels that are parts of wider rows, and more taps than the kernel
// has.
TEST_F(TrainingOnCuda, CausalConvolutionsAreThoseOfTheCpu) {
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    for (const int64_t taps : {2, 3, 4, 5}) {
      for (const bool documents : {false, true}) {
        for (const bool bias : {false, true}) {
          SCOPED_TRACE(testing::Message() << type << " " << taps << documents << bias);
          const Tensor runs =
              documents ? at::div(at::arange(150), 37, "floor").expand({2, 150}).contiguous() : Tensor();
          const Differentiable f = [&](const std::vector<Tensor>& in) {
            const Tensor ids = documents ? runs.to(in[0].device()) : runs;
            return causal_conv(in[0].narrow(2, 8, 40), in[1], bias ? in[2] : Tensor(), {}, ids);
          };
          const std::vector<Tensor> here{at::randn({2, 150, 48}).to(type), at::randn({40, 1, taps}).to(type),
                                         at::randn({40}).to(type)};
          const std::vector<Tensor> far{there(here[0]), there(here[1]), there(here[2])};
          const auto near = [&](const Tensor& a, const Tensor& b) {
            const double rounding = type == at::kFloat ? 1e-5 : 0.01;
            return is_close(a, b, {0, rounding * (b.defined() ? b.abs().max().item<double>() : 0)});
          };
          EXPECT_TRUE(near(f(far), f(here)));
          const auto got = gradients_of(f, far), want = gradients_of(f, here);
          for (std::size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(near(got[i], want[i])) << "gradient " << i;
        }
      }
    }
  }
}

// Chunks that end in the middle or are the only one; decays of heads or of channels; documents and a state before.
TEST_F(TrainingOnCuda, GatedDeltaRulesAreThoseOfTheCpu) {
  constexpr int64_t B = 2, H = 4, G = 2, K = 16, V = 8;
  for (const int64_t tokens : {40, 150}) {
    for (const bool channels : {false, true}) {
      for (const bool documents : {false, true}) {
        SCOPED_TRACE(testing::Message() << tokens << channels << documents);
        Tensor runs;
        if (documents) runs = at::div(at::arange(tokens), 37, "floor").expand({B, tokens}).contiguous();
        const std::vector<int64_t> decays{B, tokens, H, K};
        const std::vector<Tensor> here{
            at::randn({B, tokens, G, K}), at::randn({B, tokens, G, K}),
            at::randn({B, tokens, H, V}), -at::rand(at::IntArrayRef(decays).slice(0, channels ? 4 : 3)),
            at::rand({B, tokens, H}),     at::randn({B, H, K, V})};
        std::vector<Tensor> far;
        for (const Tensor& t : here) far.push_back(there(t));
        const Differentiable f = [&](const std::vector<Tensor>& in) {
          const Tensor ids = documents ? runs.to(in[0].device()) : runs;
          const Recurred done = gated_delta_rule(in[0], in[1], in[2], in[3], in[4], in[5], ids);
          return at::cat({done.out.flatten(), done.state.flatten()});
        };
        EXPECT_TRUE(is_close(f(far), f(here), {1e-4, 1e-5}));
        const auto got = gradients_of(f, far), want = gradients_of(f, here);
        for (std::size_t i = 0; i < got.size(); ++i)
          EXPECT_TRUE(is_close(got[i], want[i], {1e-3, 1e-5 * (1 + want[i].abs().max().item<double>())})) << i;
      }
    }
  }
}

TEST_F(TrainingOnCuda, GradientsOfFloat32WeightsAreNotRoundedToBfloat16) {
  const Tensor x = there(at::randn({64, 128}).to(at::kBFloat16)), d_y = there(at::randn({64, 48}).to(at::kBFloat16));
  const Tensor weight = there(at::randn({48, 128})).requires_grad_();
  operations::linear(x, weight).backward(d_y);
  const Tensor want = at::mm(d_y.cpu().to(at::kFloat).t(), x.cpu().to(at::kFloat));
  EXPECT_TRUE(is_close(weight.grad(), want, {1e-5, 1e-5}));
}

}  // namespace
}  // namespace easydel::operations

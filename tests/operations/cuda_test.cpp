// Every operation on a GPU against itself on the CPU.
#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "easydel/core/error.h"
#include "easydel/core/memory.h"
#include "easydel/operations/activation.h"
#include "easydel/operations/attention/attention.h"
#include "easydel/operations/checkpoint.h"
#include "easydel/operations/dropout.h"
#include "easydel/operations/linear/linear.h"
#include "easydel/operations/loss/loss.h"
#include "easydel/operations/moe/moe.h"
#include "easydel/operations/norm.h"
#include "easydel/operations/rope.h"
#include "tests/support/tensors.h"

namespace easydel::operations {
namespace {

using at::Tensor;
using testing::ThrowsMessage;

class Cuda : public testing::Test {
 protected:
  void SetUp() override {
    if (!at::hasCUDA()) GTEST_SKIP() << "this machine has no CUDA device";
    at::manual_seed(0);
  }
};

Tensor on_gpu(const Tensor& t) { return t.defined() ? t.to(at::kCUDA) : t; }

// f on both devices: values and gradients agree, up to bfloat16 rounding if the inputs are of that type.
void expect_same(const Differentiable& f, const std::vector<Tensor>& inputs, Tolerance tolerance) {
  std::vector<Tensor> there;
  for (const Tensor& input : inputs) there.push_back(on_gpu(input));
  EXPECT_TRUE(is_close(f(there), f(inputs), tolerance));
  const auto got = gradients_of(f, there), want = gradients_of(f, inputs);
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(is_close(got[i], want[i], tolerance)) << "gradient " << i;
}

constexpr Tolerance kExact{1e-9, 1e-9};
constexpr Tolerance kBf16{0.05, 0.05};

// In a suite of its own, that is, in a process without a tensor on a GPU.
TEST(CudaMemory, IsKnownBeforeTheFirstTensor) {
  if (!at::hasCUDA()) GTEST_SKIP() << "this machine has no CUDA device";
  EXPECT_GT(available_memory(at::kCUDA).value_or(0), 0);
}

TEST_F(Cuda, NormsRotationsAndGates) {
  const Tensor x = at::randn({2, 6, 32}, at::kDouble), w = at::randn({32}, at::kDouble);
  for (const auto type : {at::kDouble, at::kBFloat16}) {
    const Tolerance tolerance = type == at::kDouble ? kExact : kBf16;
    for (const RmsNormOptions options :
         {RmsNormOptions{}, RmsNormOptions{.weight_offset = 1.0, .multiply_before_cast = true}}) {
      expect_same([&](const auto& in) { return rms_norm(in[0], in[1], options); }, {x.to(type), w.to(type)}, tolerance);
    }
    expect_same([&](const auto& in) { return rms_norm(in[0], in[1], RmsNormOptions{}); }, {x.to(type), w}, tolerance);
    for (const char* name : {"silu", "gelu_pytorch_tanh", "relu2"}) {
      expect_same([&](const auto& in) { return gated_activation(in[0], find_activation(name)); }, {x.to(type)},
                  tolerance);
      expect_same([&](const auto& in) { return gated_activation(in[0], in[1], find_activation(name)); },
                  {at::randn({3, 5, 40}), at::randn({3, 5, 40})}, {1e-5, 1e-5});
      expect_same([&](const auto& in) { return gated_activation(in[0], in[1], find_activation(name)); },
                  {at::randn({3, 5, 7}), at::randn({3, 5, 7})}, {1e-5, 1e-5});  // not a multiple of sixteen bytes
    }
    for (const RopeStyle style : {RopeStyle::Half, RopeStyle::Interleaved}) {
      const auto frequencies = rope_frequencies({.partial_rotary_factor = 0.5}, 16, 64);
      expect_same(
          [&](const auto& in) {
            return apply_rotary(
                in[0], rope_table(frequencies, at::arange(6, in[0].options().dtype(at::kLong)), at::kDouble), style);
          },
          {x.view({2, 6, 2, 16}).to(type)}, tolerance);
    }
  }
}

std::vector<MaskInfo> masks(int64_t length) {
  std::vector<MaskInfo> all(8);
  all[1].sliding_window = 7;
  all[2].padding_mask = at::ones({2, length}, at::kLong);
  all[2].padding_mask[0].narrow(0, 0, 5).zero_();  // left: rows without visible keys
  all[3].q_segment_ids = at::div(at::arange(length), 9, "floor").expand({2, length});
  all[4].causal = false;
  all[5] = all[3];  // packed rows that end in padding
  all[5].q_segment_ids = all[5].q_segment_ids.clone();
  all[5].q_segment_ids[1].narrow(0, 30, 10).fill_(-1);
  all[6] = all[5];
  all[6].sliding_window = 4;
  all[7].padding_mask = at::ones({2, length}, at::kLong);
  all[7].padding_mask[1].narrow(0, 25, 15).zero_();
  all[7].causal = false;
  return all;
}

MaskInfo on(const MaskInfo& mask, at::Device device) {
  MaskInfo out = mask;
  for (Tensor* t : {&out.padding_mask, &out.q_segment_ids, &out.kv_segment_ids, &out.q_positions, &out.explicit_mask}) {
    if (t->defined()) *t = t->to(device);
  }
  return out;
}

TEST_F(Cuda, AttentionOfEveryMechanism) {
  constexpr int64_t T = 40;
  const Tensor q = at::randn({2, T, 4, 16}), k = at::randn({2, T, 2, 16}), v = at::randn({2, T, 2, 16});
  for (const char* mechanism : {"vanilla", "sdpa", "flash", "cudnn", "blockwise", "auto"}) {
    for (const MaskInfo& mask : masks(T)) {
      // It rejects a mask that differs between the rows of a batch.
      if (mechanism == std::string("cudnn") && (mask.padding_mask.defined() || mask.q_segment_ids.defined())) continue;
      SCOPED_TRACE(testing::Message() << mechanism << ", window " << mask.sliding_window << ", causal " << mask.causal
                                      << ", padding " << mask.padding_mask.defined() << ", segments "
                                      << mask.q_segment_ids.defined());
      expect_same(
          [&](const auto& in) {
            AttentionOptions options{.mask = on(mask, in[0].device()), .blocksize_q = 16, .blocksize_k = 16};
            options.mechanism = in[0].is_cuda() ? mechanism : "vanilla";
            const Tensor out = attention(in[0], in[1], in[2], options).out;
            // What padding sees has no meaning.
            return mask.padding_mask.defined() ? out * options.mask.padding_mask.view({2, T, 1, 1}) : out;
          },
          {q.to(at::kBFloat16), k.to(at::kBFloat16), v.to(at::kBFloat16)}, kBf16);
    }
  }
}

TEST_F(Cuda, PaddingAndDocumentsNeedNoMatrix) {
  constexpr int64_t T = 32768;
  const auto options = at::TensorOptions(at::kBFloat16).device(at::kCUDA);
  const Tensor q = at::randn({2, T, 4, 64}, options), k = at::randn({2, T, 2, 64}, options);
  for (const bool segments : {false, true}) {
    AttentionOptions attend;
    const Tensor ids = at::zeros({2, T}, at::kLong);
    ids[1].narrow(0, 1000, T - 1000).fill_(segments ? 1 : -1);
    (segments ? attend.mask.q_segment_ids : attend.mask.padding_mask) = segments ? ids : ids.ge(0);
    const int64_t before = peak_memory(q.device());
    attention(q, k, k, attend);
    EXPECT_LT(peak_memory(q.device()) - before, T * T);  // less than a byte for each pair of one row
  }
}

TEST_F(Cuda, AttentionInFloat64WithCapSinksAndDropout) {
  const Tensor q = at::randn({2, 20, 4, 8}, at::kDouble), k = at::randn({2, 20, 2, 8}, at::kDouble);
  const Tensor sinks = at::randn({4}, at::kDouble);
  for (const char* mechanism : {"vanilla", "blockwise", "auto"}) {
    expect_same(
        [&](const auto& in) {
          return attention(in[0], in[1], in[1],
                           {.mechanism = mechanism,
                            .softcap = 2.0,
                            .sinks = in[2],
                            .dropout_p = 0.2,
                            .dropout_key = RandomKey(4),
                            .blocksize_q = 8,
                            .blocksize_k = 8})
              .out;
        },
        {q, k, sinks}, kExact);
  }
}

TEST_F(Cuda, DecodingWithACache) {
  const Tensor q = at::randn({2, 1, 4, 16}), k = at::randn({2, 30, 2, 16});
  for (const char* mechanism : {"sdpa", "flash", "cudnn", "blockwise", "auto"}) {
    SCOPED_TRACE(mechanism);
    for (const int64_t window : {0, 7}) {
      expect_same(
          [&](const auto& in) {
            AttentionOptions options;
            options.mask.sliding_window = window;
            options.mechanism = in[0].is_cuda() ? mechanism : "vanilla";
            return attention(in[0], in[1], in[1], options).out;
          },
          {q.to(at::kBFloat16), k.to(at::kBFloat16)}, kBf16);
    }
  }
}

TEST_F(Cuda, FlashRefusesFloat32) {
  const Tensor x = at::zeros({1, 2, 2, 8}, at::kCUDA);
  EXPECT_THAT([&] { attention(x, x, x, {.mechanism = "flash"}); },
              ThrowsMessage<NotSupportedError>(
                  "[attention] \"flash\" computes in float16 or bfloat16 on CUDA; got float32. Set "
                  "`dtype`, or use \"sdpa\" or \"auto\"."));
}

TEST_F(Cuda, Losses) {
  const Tensor hidden = at::randn({50, 16}, at::kDouble), weight = at::randn({40, 16}, at::kDouble),
               bias = at::randn({40}, at::kDouble), labels = at::randint(40, {50}, at::kLong);
  labels[3] = -100;
  for (const Reduction reduction : {Reduction::Mean, Reduction::None}) {
    const CrossEntropyOptions options{.label_smoothing = 0.1,
                                      .z_loss = 0.01,
                                      .reduction = reduction,
                                      .logit_scale = 0.7,
                                      .logit_softcap = 5.0,
                                      .chunk_size = 16};
    const auto linear_loss = [&](const auto& in) {
      return linear_cross_entropy(in[0], in[1], in[2], labels.to(in[0].device()), options).loss;
    };
    expect_same(linear_loss, {hidden, weight, bias}, kExact);
    expect_same(linear_loss, {hidden.to(at::kBFloat16), weight.to(at::kBFloat16), bias.to(at::kBFloat16)}, kBf16);
    expect_same(
        [&](const auto& in) { return linear_cross_entropy(in[0], in[1], {}, labels.to(in[0].device()), options).loss; },
        {hidden.to(at::kBFloat16), weight.to(at::kBFloat16)}, kBf16);
    expect_same([&](const auto& in) { return cross_entropy(in[0], labels.to(in[0].device()), options).loss; },
                {at::randn({50, 40}, at::kDouble)}, kExact);
  }
  // The kernels for float32: rows in one block, or in the shared memory of one to eight; with packs of four or without.
  for (const int64_t width : {4096, 5003, 18000, 65540, 128256, 300004, 420000}) {
    const Tensor logits = at::randn({33, width}) * 3, classes = at::randint(width, {33}, at::kLong);
    classes.select(0, 5).fill_(-100);
    for (const CrossEntropyOptions& options :
         {CrossEntropyOptions{},
          CrossEntropyOptions{.label_smoothing = 0.1, .z_loss = 0.01, .logit_scale = 0.5, .logit_softcap = 4.0}}) {
      const auto loss = [&](const auto& in) { return cross_entropy(in[0], classes.to(in[0].device()), options).loss; };
      expect_same(loss, {logits}, {1e-4, 1e-6});
      const auto here = cross_entropy(logits, classes, options),
                 there = cross_entropy(on_gpu(logits), on_gpu(classes), options);
      EXPECT_EQ(here.num_correct.item<int64_t>(), there.num_correct.item<int64_t>());
    }
  }
  const auto a = linear_cross_entropy(hidden, weight, bias, labels);
  const auto b = linear_cross_entropy(on_gpu(hidden), on_gpu(weight), on_gpu(bias), on_gpu(labels));
  EXPECT_EQ(a.num_correct.item<int64_t>(), b.num_correct.item<int64_t>());
  EXPECT_EQ(a.num_tokens.item<int64_t>(), b.num_tokens.item<int64_t>());
}

TEST_F(Cuda, Experts) {
  const Tensor x = at::randn({30, 16}, at::kDouble), w = at::randn({4, 24, 16}, at::kDouble),
               b = at::randn({4, 24}, at::kDouble);
  const Tensor logits = at::randn({30, 4}, at::kDouble);
  for (const auto type : {at::kDouble, at::kBFloat16}) {
    expect_same(
        [&](const auto& in) {
          const Routing routing = route(in[3].to(at::kDouble), {.top_k = 2});
          const Dispatch dispatch = make_dispatch(routing.experts, 4);
          return combine_rows(grouped_linear(dispatch_rows(in[0], dispatch), in[1], in[2], dispatch), routing.weights,
                              dispatch);
        },
        {x.to(type), w.to(type), b.to(type), logits.to(type)}, type == at::kDouble ? kExact : Tolerance{0.05, 0.1});
  }
}

TEST_F(Cuda, RowsAreSortedByExpertAsOnTheCpu) {
  for (const int64_t num_experts : {1, 3, 64, 1024, 1100}) {
    for (const int64_t tokens : {1, 33, 1024, 5000}) {
      SCOPED_TRACE(concat(num_experts, " experts, ", tokens, " tokens"));
      const Tensor experts = at::randint(num_experts, {tokens, 3}, at::kLong);
      const Dispatch here = make_dispatch(experts, num_experts), there = make_dispatch(on_gpu(experts), num_experts);
      EXPECT_TRUE(at::equal(here.order, there.order.cpu()));
      EXPECT_TRUE(at::equal(here.inverse, there.inverse.cpu()));
      EXPECT_TRUE(at::equal(here.ends, there.ends.cpu()));
    }
  }
}

TEST_F(Cuda, ExpertsAreChosenAsOnTheCpu) {
  for (const int64_t num_experts : {1, 6, 64, 200, 1024, 1100}) {
    Tensor logits = at::randn({37, num_experts});
    logits.select(0, 3).fill_(-std::numeric_limits<double>::infinity()).select(0, num_experts - 1).fill_(2);
    for (const int64_t top_k : {int64_t{1}, std::min<int64_t>(num_experts, 7)}) {
      SCOPED_TRACE(concat(num_experts, " experts, ", top_k));
      const Routing here = route(logits, {.top_k = top_k}), there = route(on_gpu(logits), {.top_k = top_k});
      for (int64_t row = 0; row < logits.size(0); ++row) {
        if (row == 3 && top_k > 1) continue;
        EXPECT_TRUE(at::equal(here.experts[row], there.experts[row].cpu())) << row;
      }
      const Tensor equal = std::get<0>(there.experts[3].cpu().sort());  // scores of zero: any, but each once
      EXPECT_TRUE(top_k == 1 || (equal.diff() > 0).all().item<bool>());
      EXPECT_TRUE(is_close(there.weights, here.weights, {1e-5, 1e-6}));
    }
  }
}

TEST_F(Cuda, RoutesWithTheSameWeightsAndGradients) {
  for (const int64_t num_experts : {6, 64, 200}) {
    const Tensor logits = at::randn({37, num_experts}), bias = at::randn({num_experts}) * 0.1;
    const Tensor d_weights = at::randn({37, 5});
    for (const auto scoring : {RouterScoring::Softmax, RouterScoring::Sigmoid, RouterScoring::SoftmaxOfChosen}) {
      for (const bool renormalize : {true, false}) {
        for (const bool biased : {true, false}) {
          SCOPED_TRACE(concat(num_experts, " experts, scoring ", static_cast<int>(scoring), renormalize, biased));
          RouterOptions options{.top_k = 5, .scoring = scoring, .renormalize = renormalize, .scale = 2.5};
          if (biased) options.selection_bias = bias;
          expect_same(
              [&](const auto& in) {
                RouterOptions there = options;
                if (biased) there.selection_bias = bias.to(in[0].device());
                return route(in[0], there).weights * in[1];
              },
              {logits, d_weights}, {1e-5, 1e-6});
        }
      }
    }
  }
}

// Sizes around the tiles of the kernels: odd and even numbers of them, parts, experts without rows. bfloat16 on the GPU
// agrees with float32 on the CPU up to rounding.
TEST_F(Cuda, FusedExperts) {
  struct Shape {
    int64_t tokens, experts, top_k, hidden, inner;
  };
  for (const Shape& s : {Shape{3, 5, 1, 64, 72}, Shape{40, 4, 2, 64, 64}, Shape{700, 3, 2, 192, 136},
                         Shape{300, 40, 3, 384, 320}, Shape{2100, 4, 2, 1216, 264}, Shape{130, 2, 2, 20, 12}}) {
    const auto rounded = [](const Tensor& t) { return t.to(at::kBFloat16).to(at::kFloat); };
    const Tensor experts = std::get<1>(at::topk(at::randn({s.tokens, s.experts}), s.top_k, 1));
    experts.masked_fill_(experts == 1, 0);  // one without rows, one with twice as many
    const std::vector<Tensor> inputs{rounded(at::randn({s.tokens, s.hidden})), at::rand({s.tokens, s.top_k}),
                                     rounded(at::randn({s.experts, 2 * s.inner, s.hidden}) * 0.1),
                                     rounded(at::randn({s.experts, s.hidden, s.inner}) * 0.1)};
    for (const char* name : {"silu", "gelu_pytorch_tanh", "relu"}) {
      SCOPED_TRACE(concat(name, ", ", s.tokens, " tokens"));
      const auto f = [&](const std::vector<Tensor>& in) {
        const Dispatch dispatch = make_dispatch(experts.to(in[0].device()), s.experts);
        return fused_experts(in[0], in[1], {in[2], in[3], &find_activation(name)}, dispatch);
      };
      if (s.tokens < 1000) expect_same(f, inputs, {1e-4, 1e-4});  // longer sums cancel more than this leaves
      std::vector<Tensor> narrow;
      for (std::size_t i = 0; i < inputs.size(); ++i)
        narrow.push_back(on_gpu(i == 1 ? inputs[i] : inputs[i].to(at::kBFloat16)));
      const auto expect_near = [](const Tensor& got, const Tensor& want) {
        EXPECT_TRUE(is_close(got.to(at::kFloat), want, {0, 0.02 * want.abs().max().item<double>()}));
      };
      expect_near(f(narrow), f(inputs));
      const auto got = gradients_of(f, narrow), want = gradients_of(f, inputs);
      for (std::size_t i = 0; i < got.size(); ++i) expect_near(got[i], want[i]);
    }
  }
}

TEST_F(Cuda, CheckpointsAndDropout) {
  const Tensor w = at::randn({8, 8}, at::kDouble);
  for (const char* policy : {"none", "nothing_saveable", "checkpoint_dots"}) {
    SCOPED_TRACE(policy);
    const auto gradient = [&](at::Device device) {
      const Tensor weight = w.clone().to(device).requires_grad_(),
                   x = at::ones({4, 8}, at::kDouble).to(device).requires_grad_();
      checkpoint(
          [&](const TensorList& in) -> TensorList {
            return {dropout(at::tanh(operations::linear(in[0], weight)), 0.4, RandomKey(2))};
          },
          {x}, CheckpointPolicy(policy))[0]
          .sum()
          .backward();
      return at::cat({weight.grad(), x.grad()});
    };
    EXPECT_TRUE(is_close(gradient(at::kCUDA), gradient(at::kCPU), kExact));
  }
}

}  // namespace
}  // namespace easydel::operations

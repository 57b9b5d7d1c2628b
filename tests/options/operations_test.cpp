// What the options of the operations and of the losses do.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>

#include <cmath>

#include "easydel/infra/loss.h"
#include "easydel/layers/linear.h"
#include "easydel/models/mixtral/model.h"
#include "easydel/operations/attention/attention.h"
#include "easydel/operations/checkpoint.h"
#include "easydel/operations/loss/loss.h"
#include "easydel/operations/moe/moe.h"
#include "easydel/operations/norm.h"
#include "tests/infra/tiny_llama.h"
#include "tests/support/probe.h"
#include "tests/support/tensors.h"

namespace easydel::operations_probes {
namespace {

using at::Tensor;
using operations::AttentionOptions;
using operations::CrossEntropyOptions;
using operations::Reduction;
using operations::RmsNormOptions;
using operations::RouterOptions;
using operations::RouterScoring;
using testing_support::is_refused;

// Attention ----------------------------------------------------------------------------------------------------------

// One row of T tokens and two heads of four, in float64.
struct Attending {
  explicit Attending(int64_t tokens = 3) {
    at::manual_seed(7);
    q = at::randn({1, tokens, 2, 4}, at::kDouble);
    k = at::randn({1, tokens, 2, 4}, at::kDouble);
    v = at::randn({1, tokens, 2, 4}, at::kDouble);
  }
  Tensor operator()(const AttentionOptions& options) const { return operations::attention(q, k, v, options).out; }
  // [N, T, S], in which the caller changes the scores.
  Tensor scores() const { return at::einsum("btnh,bsnh->bnts", {q, k})[0]; }
  Tensor weigh(const Tensor& scores) const {
    const Tensor hidden = at::ones({q.size(1), q.size(1)}, at::kBool).triu(1);
    return at::einsum("nts,bsnh->btnh", {scores.masked_fill(hidden, -INFINITY).softmax(-1), v});
  }

  Tensor q, k, v;
};

PROBE(AttentionOptions, mechanism) {
  const Attending attend;
  EXPECT_TRUE(is_close(attend({.mechanism = "vanilla"}), attend.weigh(attend.scores() / 2)));
  EXPECT_TRUE(is_refused("telepathy", [&] { attend({.mechanism = "telepathy"}); }));
}
PROBE(AttentionOptions, scale) {
  const Attending attend;
  EXPECT_TRUE(is_close(attend({.scale = 2.0}), attend.weigh(attend.scores() * 2)));
}
PROBE(AttentionOptions, mask) {
  const Attending attend;
  const Tensor all = at::einsum("nts,bsnh->btnh", {(attend.scores() / 2).softmax(-1), attend.v});
  EXPECT_TRUE(is_close(attend({.mask = {.causal = false}}), all));
}
PROBE(AttentionOptions, bias) {
  const Attending attend;
  const Tensor bias = at::randn({1, 2, 3, 3}, at::kDouble);
  EXPECT_TRUE(is_close(attend({.bias = bias}), attend.weigh(attend.scores() / 2 + bias[0])));
}
PROBE(AttentionOptions, softcap) {
  const Attending attend;
  EXPECT_TRUE(is_close(attend({.softcap = 0.5}), attend.weigh((attend.scores() / 2 / 0.5).tanh() * 0.5)));
}
// A sink takes its share of the softmax: with a very high score it takes all.
PROBE(AttentionOptions, sinks) {
  const Attending attend;
  const Tensor out = attend({.sinks = at::tensor({-1000.0, 1000.0}, at::kDouble)});
  EXPECT_TRUE(is_close(out.select(2, 0), attend({}).select(2, 0)));
  EXPECT_EQ(out.select(2, 1).abs().max().item<double>(), 0);
}
PROBE(AttentionOptions, dropout_p) {
  const Attending attend;
  EXPECT_FALSE(at::allclose(attend({.dropout_p = 0.5, .dropout_key = RandomKey(1)}), attend({})));
  EXPECT_TRUE(is_refused("dropout_p", [&] { attend({.dropout_p = 1.0, .dropout_key = RandomKey(1)}); }));
}
PROBE(AttentionOptions, dropout_key) {
  const Attending attend;
  const auto drop = [&](int key) { return attend({.dropout_p = 0.5, .dropout_key = RandomKey(key)}); };
  EXPECT_TRUE(at::equal(drop(1), drop(1)));
  EXPECT_FALSE(at::equal(drop(1), drop(2)));
  EXPECT_TRUE(is_refused("dropout_key", [&] { attend({.dropout_p = 0.5}); }));
}
// The weights of a rank that has the second of two rows drop what they drop where both rows are.
PROBE(AttentionOptions, dropout_region) {
  const Attending attend;
  const auto twice = [](const Tensor& t) { return at::cat({t, t}); };
  AttentionOptions options{.dropout_p = 0.5, .dropout_key = RandomKey(1)};
  const Tensor both = operations::attention(twice(attend.q), twice(attend.k), twice(attend.v), options).out;
  options.dropout_region = Region{{2, 2, 3, 3}, {1, 0, 0, 0}};
  EXPECT_TRUE(is_close(attend(options)[0], both[1]));
  EXPECT_FALSE(at::allclose(both[0], both[1]));
}
PROBE(AttentionOptions, return_weights) {
  const Attending attend;
  EXPECT_FALSE(operations::attention(attend.q, attend.k, attend.v, {}).weights.defined());
  const Tensor weights = operations::attention(attend.q, attend.k, attend.v, {.return_weights = true}).weights;
  EXPECT_TRUE(is_close(weights.sum(-1), at::ones({1, 2, 3}, at::kDouble)));
}

// Bytes that blockwise attention holds at once, on one thread.
int64_t blockwise_bytes(int64_t blocksize_q, int64_t blocksize_k) {
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const Attending attend(64);
  const at::NoGradGuard no_grad;
  const AttentionOptions options{.mechanism = "blockwise", .blocksize_q = blocksize_q, .blocksize_k = blocksize_k};
  attend(options);
  const int64_t bytes = peak_bytes([&] { attend(options); });
  at::set_num_threads(threads);
  return bytes;
}

PROBE(AttentionOptions, blocksize_q) {
  EXPECT_LT(blockwise_bytes(8, 512), blockwise_bytes(512, 512));
  EXPECT_TRUE(is_refused("blocksize_q", [] { blockwise_bytes(0, 512); }));
}
PROBE(AttentionOptions, blocksize_k) {
  EXPECT_LT(blockwise_bytes(512, 8), blockwise_bytes(512, 512));
  EXPECT_TRUE(is_refused("blocksize_k", [] { blockwise_bytes(512, 0); }));
}
PROBE(AttentionOptions, dtype) {
  const Attending attend;
  const Tensor narrow = attend({.mechanism = "vanilla", .dtype = bfloat16});
  EXPECT_EQ(narrow.scalar_type(), float64);  // as q is
  EXPECT_TRUE(at::equal(narrow, narrow.to(bfloat16).to(float64)));
  EXPECT_FALSE(at::equal(narrow, attend({.mechanism = "vanilla"})));
}

// Cross-entropy ------------------------------------------------------------------------------------------------------

const std::vector<double> kLogits = {1, 2, 0, -1, 0.5, 3, 2, -2, 0, 1, 1, 4};

// Three tokens and a vocabulary of four.
struct Tokens {
  Tensor logits = at::tensor(kLogits, at::kDouble).view({3, 4});
  Tensor labels = at::tensor({1, 0, 3}, at::kLong);

  Tensor operator()(const CrossEntropyOptions& options = {}) const {
    return operations::cross_entropy(logits, labels, options).loss;
  }
  Tensor each() const { return at::cross_entropy_loss(logits, labels, {}, at::Reduction::None); }
};

PROBE(CrossEntropyOptions, ignore_index) {
  const Tokens tokens;
  EXPECT_TRUE(is_close(tokens({.ignore_index = 0}), tokens.each().index({at::tensor({0, 2}, at::kLong)}).mean()));
  EXPECT_TRUE(is_close(tokens(), tokens.each().mean()));
}
PROBE(CrossEntropyOptions, label_smoothing) {
  const Tokens tokens;
  const Tensor expected =
      at::cross_entropy_loss(tokens.logits, tokens.labels, {}, at::Reduction::Mean, -100, /*label_smoothing=*/0.2);
  EXPECT_TRUE(is_close(tokens({.label_smoothing = 0.2}), expected));
}
PROBE(CrossEntropyOptions, z_loss) {
  const Tokens tokens;
  const Tensor z = at::logsumexp(tokens.logits, -1).square().mean();
  EXPECT_TRUE(is_close(tokens({.z_loss = 0.1}), tokens.each().mean() + 0.1 * z));
}
PROBE(CrossEntropyOptions, reduction) {
  const Tokens tokens;
  EXPECT_TRUE(is_close(tokens({.reduction = Reduction::Sum}), tokens.each().sum()));
  EXPECT_TRUE(is_close(tokens({.reduction = Reduction::None}), tokens.each()));
}
PROBE(CrossEntropyOptions, token_weights) {
  const Tokens tokens;
  const Tensor weights = at::tensor({1.0, 0.0, 3.0}, at::kDouble);
  EXPECT_TRUE(is_close(tokens({.token_weights = weights}), (tokens.each() * weights).sum() / 4));
}
PROBE(CrossEntropyOptions, divisor) {
  const Tokens tokens;
  EXPECT_TRUE(is_close(tokens({.divisor = at::full({}, 10.0, at::kDouble)}), tokens.each().sum() / 10));
}
PROBE(CrossEntropyOptions, logit_scale) {
  Tokens tokens, scaled;
  scaled.logits = scaled.logits * 0.5;
  EXPECT_TRUE(is_close(tokens({.logit_scale = 0.5}), scaled()));
}
PROBE(CrossEntropyOptions, logit_softcap) {
  Tokens tokens, capped;
  capped.logits = (capped.logits / 2).tanh() * 2;
  EXPECT_TRUE(is_close(tokens({.logit_softcap = 2}), capped()));
}

// Many tokens from hidden states, and the bytes that their loss holds at once.
int64_t linear_loss_bytes(int64_t chunk_size) {
  const Tensor hidden = at::ones({256, 4}), weight = at::ones({512, 4}), labels = at::zeros({256}, at::kLong);
  const at::NoGradGuard no_grad;
  return peak_bytes([&] { operations::linear_cross_entropy(hidden, weight, {}, labels, {.chunk_size = chunk_size}); });
}

PROBE(CrossEntropyOptions, chunk_size) {
  EXPECT_LT(linear_loss_bytes(16), linear_loss_bytes(256) / 2);
  EXPECT_TRUE(is_refused("chunk_size", [] { linear_loss_bytes(-1); }));
}

// A rank with the first two words of four: what the other would give comes from the test.
PROBE(CrossEntropyOptions, split) {
  const Tokens tokens;
  const Tensor own = tokens.logits.narrow(1, 0, 2).contiguous(), other = tokens.logits.narrow(1, 2, 2).contiguous();
  int reductions = 0;
  const operations::VocabularySplit split{
      .begin = 0, .parts = 2, .all_reduce = [&](const Tensor& values, bool maximum) {
        ++reductions;
        if (maximum) values.copy_(at::maximum(values, std::get<0>(other.max(1))));
      }};
  const Tensor loss = operations::linear_cross_entropy(own, at::eye(2, at::kDouble), {}, tokens.labels,
                                                       {.reduction = Reduction::None, .split = split, .vocabulary = 4})
                          .loss;
  EXPECT_GE(reductions, 2);
  // The first row's label is here: of its sum of exponentials the other half is missing.
  const Tensor top = tokens.logits[0].max();
  EXPECT_NEAR(loss[0].item<double>(), ((own[0] - top).exp().sum().log() + top - own[0][1]).item<double>(), 1e-9);
}

// A weight of which there is a half here: whoever reaches it gives all of it.
class Doubled : public operations::WeightAccess {
 public:
  Tensor gather(const Tensor& part, at::ScalarType dtype) const override { return at::cat({part, part}).to(dtype); }
  Tensor reduce(const Tensor& gradient) const override {
    return gradient.narrow(0, 0, gradient.size(0) / 2) + gradient.narrow(0, gradient.size(0) / 2, gradient.size(0) / 2);
  }
};

PROBE(CrossEntropyOptions, weight_access) {
  at::manual_seed(1);
  const Tensor hidden = at::randn({3, 4}, at::kDouble), half = at::randn({2, 4}, at::kDouble);
  const Tensor labels = at::tensor({1, 0, 3}, at::kLong);
  const Tensor loss = operations::linear_cross_entropy(hidden, half, {}, labels,
                                                       {.weight_access = std::make_shared<Doubled>(), .vocabulary = 4})
                          .loss;
  EXPECT_TRUE(is_close(loss, operations::linear_cross_entropy(hidden, at::cat({half, half}), {}, labels).loss));
}
PROBE(CrossEntropyOptions, vocabulary) {
  const Tensor hidden = at::ones({1, 4}, at::kDouble), half = at::ones({2, 4}, at::kDouble);
  const Tensor labels = at::tensor({3}, at::kLong);
  const auto loss = [&](int64_t vocabulary) {
    return operations::linear_cross_entropy(hidden, half, {}, labels,
                                            {.weight_access = std::make_shared<Doubled>(), .vocabulary = vocabulary})
        .loss.item<double>();
  };
  EXPECT_NEAR(loss(4), std::log(4.0), 1e-9);
  EXPECT_TRUE(is_refused("a label must be in [0, 2)", [&] { loss(0); }));
}

// Norms and routers --------------------------------------------------------------------------------------------------

const Tensor kRow = at::tensor({3.0, 4.0}, at::kDouble);  // its mean square is 12.5

PROBE(RmsNormOptions, eps) { EXPECT_TRUE(is_close(operations::rms_norm(kRow, {}, {.eps = 12.5}), kRow / 5)); }
PROBE(RmsNormOptions, weight_offset) {
  const Tensor weight = at::tensor({1.0, 2.0}, at::kDouble);
  EXPECT_TRUE(is_close(operations::rms_norm(kRow, weight, {.eps = 0, .weight_offset = 1}),
                       kRow / std::sqrt(12.5) * (1 + weight)));
}
// One rounding to bfloat16, or two.
PROBE(RmsNormOptions, multiply_before_cast) {
  at::manual_seed(3);
  const Tensor x = at::randn({512}).to(bfloat16), weight = at::randn({512}).to(bfloat16);
  const Tensor wide = x.to(float32), exact = wide * (wide.square().mean() + 1e-6).rsqrt() * weight.to(float32);
  const auto error = [&](const RmsNormOptions& options) {
    const Tensor off = operations::rms_norm(x, weight, options).to(float32) - exact;
    return (off / exact).abs().max().item<double>();
  };
  EXPECT_LT(error({.multiply_before_cast = true}), 1.01 / 256);
  EXPECT_GT(error({}), 1.1 / 256);
}

// One token and four experts.
const Tensor kRouted = at::tensor({1.0, 3.0, 2.0, 0.0}, at::kDouble).view({1, 4});

std::vector<int64_t> chosen(const RouterOptions& options) {
  const Tensor experts = std::get<0>(operations::route(kRouted, options).experts[0].sort());
  return {experts.const_data_ptr<int64_t>(), experts.const_data_ptr<int64_t>() + experts.numel()};
}
Tensor weighed(const RouterOptions& options) {
  return std::get<0>(operations::route(kRouted, options).weights[0].sort());
}

PROBE(RouterOptions, top_k) {
  EXPECT_EQ(chosen({.top_k = 1}), (std::vector<int64_t>{1}));
  EXPECT_EQ(chosen({}), (std::vector<int64_t>{1, 2}));
  EXPECT_TRUE(is_refused("top_k", [] { chosen({.top_k = 5}); }));
}
PROBE(RouterOptions, scoring) {
  const auto scores = [](RouterScoring scoring) { return weighed({.scoring = scoring, .renormalize = false}); };
  const Tensor best = at::tensor({2.0, 3.0}, at::kDouble);
  EXPECT_TRUE(is_close(scores(RouterScoring::Softmax), std::get<0>(kRouted[0].softmax(0).sort()).narrow(0, 2, 2)));
  EXPECT_TRUE(is_close(scores(RouterScoring::Sigmoid), best.sigmoid()));
  EXPECT_TRUE(is_close(scores(RouterScoring::SoftmaxOfChosen), best.softmax(0)));
}
PROBE(RouterOptions, renormalize) {
  EXPECT_NEAR(weighed({}).sum().item<double>(), 1, 1e-9);
  EXPECT_LT(weighed({.renormalize = false}).sum().item<double>(), 0.95);
}
PROBE(RouterOptions, least_sum) { EXPECT_LT(weighed({.least_sum = 4}).sum().item<double>(), 0.26); }
PROBE(RouterOptions, nearness) {
  const auto sum = [](double nearness) {
    return weighed({.scoring = RouterScoring::SparseMixer, .nearness = nearness}).sum().item<double>();
  };
  EXPECT_NEAR(sum(0), 2, 1e-9);  // each of the two alone
  EXPECT_LT(sum(10), 1.99);
}
PROBE(RouterOptions, scale) { EXPECT_NEAR(weighed({.scale = 2.5}).sum().item<double>(), 2.5, 1e-9); }
PROBE(RouterOptions, selection_bias) {
  const Tensor bias = at::tensor({10.0, 0.0, 0.0, 10.0}, at::kDouble);
  const RouterOptions options{.scoring = RouterScoring::Sigmoid, .renormalize = false, .selection_bias = bias};
  EXPECT_EQ(chosen(options), (std::vector<int64_t>{0, 3}));
  EXPECT_TRUE(is_close(weighed(options), at::tensor({0.0, 1.0}, at::kDouble).sigmoid()));  // without the bias
}
// Experts 0 and 1, and 2 and 3: the best expert is in the first group, as is the best pair.
PROBE(RouterOptions, groups) { EXPECT_EQ(chosen({.groups = 2}), (std::vector<int64_t>{0, 1})); }
PROBE(RouterOptions, top_groups) { EXPECT_EQ(chosen({.groups = 2, .top_groups = 2}), (std::vector<int64_t>{1, 2})); }
PROBE(RouterOptions, group_best) {
  const Tensor logits = at::tensor({3.0, 0.0, 2.9, 2.8}, at::kDouble).view({1, 4});
  const auto group = [&](int64_t best) {
    const RouterOptions options{.scoring = RouterScoring::Sigmoid, .groups = 2, .group_best = best};
    return operations::route(logits, options).experts[0].min().item<int64_t>() / 2;
  };
  EXPECT_EQ(group(1), 0);  // by the best expert
  EXPECT_EQ(group(2), 1);  // by the best two
}

// Linear layers ------------------------------------------------------------------------------------------------------

std::shared_ptr<Linear> linear_of(const LinearOptions& options) {
  auto linear = std::make_shared<Linear>(Dim(64), Dim(32), options);
  for (const auto& [path, parameter] : linear->named_parameters())
    parameter->draw(RandomKey(0).fold(path), at::TensorOptions(at::kFloat));
  return linear;
}

PROBE(LinearOptions, bias) {
  EXPECT_NE(linear_of({.bias = true})->bias(), nullptr);
  EXPECT_EQ(linear_of({})->bias(), nullptr);
}
PROBE(LinearOptions, transposed) {
  const auto linear = linear_of({.transposed = true});
  EXPECT_EQ(linear->weight()->value().sizes(), at::IntArrayRef({64, 32}));
  const Tensor x = at::randn({3, 64});
  EXPECT_TRUE(is_close((*linear)(x), x.mm(linear->weight()->value()), {1e-4, 1e-5}));
}
PROBE(LinearOptions, init_stddev) {
  EXPECT_NEAR(linear_of({})->weight()->value().std().item<double>(), 0.02, 0.002);
  EXPECT_NEAR(linear_of({.init_stddev = 0.5})->weight()->value().std().item<double>(), 0.5, 0.05);
}
// A checkpoint that keeps results of this name holds one of them until backward.
PROBE(LinearOptions, name) {
  const Tensor x = at::randn({8, 64}).requires_grad_();
  const operations::CheckpointPolicy policy("save_only_these_names", {"attn_query"});
  const auto held = [&](const std::string& name) {
    const auto linear = linear_of({.name = name});
    operations::TensorList out;
    return held_bytes([&] {
      out = operations::checkpoint(
          [&](const operations::TensorList& in) { return operations::TensorList{(*linear)(in[0]).tanh()}; }, {x},
          policy);
    });
  };
  EXPECT_GE(held("attn_query"), held("") + 8 * 32 * 4);
}

// Losses of models ---------------------------------------------------------------------------------------------------

Tensor labels() {
  Tensor labels = tiny_ids().clone();
  labels[0].narrow(0, 0, 3).fill_(-100);
  return labels;
}

Tensor loss_of(const LossConfig& config, const Tensor& wanted = labels()) {
  return tiny_llama()->compute_loss({.input_ids = tiny_ids(), .labels = wanted}, config).first.loss.detach();
}

// What torch makes of the logits and the next labels.
Tensor by_torch(at::Reduction::Reduction reduction, int64_t ignored = -100, double smoothing = 0) {
  const Tensor logits = logits_of(*tiny_llama()).narrow(1, 0, 6).flatten(0, 1);
  return at::cross_entropy_loss(logits, labels().narrow(1, 1, 6).flatten(), {}, reduction, ignored, smoothing);
}

constexpr Tolerance kClose{1e-5, 1e-6};

PROBE(LossConfig, loss_type) {
  EXPECT_TRUE(is_close(loss_of({.loss_type = "cross_entropy"}), by_torch(at::Reduction::Mean), kClose));
  EXPECT_TRUE(is_refused("loss_type", [] { loss_of({.loss_type = "hinge"}); }));
}
PROBE(LossConfig, ignore_index) {
  Tensor other = labels();
  other.masked_fill_(other.eq(-100), -7);
  EXPECT_TRUE(is_close(loss_of({.ignore_index = -7}, other), by_torch(at::Reduction::Mean), kClose));
  EXPECT_TRUE(is_refused("ignore_index", [&] { loss_of({}, other); }));
}
PROBE(LossConfig, label_smoothing) {
  EXPECT_TRUE(is_close(loss_of({.label_smoothing = 0.2}), by_torch(at::Reduction::Mean, -100, 0.2), kClose));
  EXPECT_TRUE(is_refused("label_smoothing", [] { loss_of({.label_smoothing = 1.0}); }));
}
PROBE(LossConfig, z_loss_coefficient) {
  const Tensor counted = labels().narrow(1, 1, 6).ne(-100);
  const Tensor z = at::logsumexp(logits_of(*tiny_llama()).narrow(1, 0, 6), -1).square().index({counted}).mean();
  EXPECT_TRUE(is_close(loss_of({.z_loss_coefficient = 0.01}), loss_of({}) + 0.01 * z, kClose));
}
PROBE(LossConfig, auxiliary_loss_coefficient) {
  MixtralConfig config;
  config.vocab_size = 29;
  config.hidden_size = 16;
  config.intermediate_size = 24;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 4;
  config.num_key_value_heads = 2;
  config.num_local_experts = 4;
  const auto model = make_model<MixtralForCausalLM>(config);
  const ModelInputs batch{.input_ids = tiny_ids(), .labels = labels()};
  const auto [out, metrics] = model->compute_loss(batch, {.auxiliary_loss_coefficient = 2.0});
  EXPECT_TRUE(is_close(out.loss, model->compute_loss(batch).first.loss + 2 * metrics.aux_loss, kClose));
  EXPECT_GT(metrics.aux_loss.item<double>(), 1.9);
}
PROBE(LossConfig, shift_tokens) {
  const Tensor own =
      at::cross_entropy_loss(logits_of(*tiny_llama()).flatten(0, 1), labels().flatten(), {}, at::Reduction::Mean, -100);
  EXPECT_TRUE(is_close(loss_of({.shift_tokens = false}), own, kClose));
}
PROBE(LossConfig, reduction) {
  EXPECT_TRUE(is_close(loss_of({.reduction = "sum"}), by_torch(at::Reduction::Sum), kClose));
  EXPECT_EQ(loss_of({.reduction = "none"}).sizes(), at::IntArrayRef({2, 7}));
  EXPECT_TRUE(is_refused("reduction", [] { loss_of({.reduction = "median"}); }));
}
PROBE(LossConfig, num_items_in_batch) {
  EXPECT_TRUE(is_close(loss_of({.num_items_in_batch = 40}), by_torch(at::Reduction::Sum) / 40, kClose));
}
PROBE(LossConfig, chunk_size) {
  const Tensor hidden = at::ones({1, 256, 64}), targets = at::zeros({1, 256}, at::kLong);
  const auto head = linear_of({});
  const auto bytes = [&](int64_t chunk_size) {
    const at::NoGradGuard no_grad;
    return peak_bytes([&] { causal_lm_loss(hidden, *head, targets, {.chunk_size = chunk_size}); });
  };
  EXPECT_LT(bytes(16), bytes(256));
  EXPECT_TRUE(is_refused("chunk_size", [&] { bytes(-1); }));
}
PROBE(LossConfig, problem_type) {
  const Tensor logits = at::tensor({0.5, -1.0}, at::kDouble).view({1, 2}), wanted = at::ones({1, 2}, at::kDouble);
  const auto loss = [&](const LossConfig& config) { return classification_loss(logits, wanted, config, {}).loss; };
  EXPECT_TRUE(is_close(loss({.problem_type = "regression"}), (logits - 1).square().mean()));
  EXPECT_TRUE(is_close(loss({}), at::binary_cross_entropy_with_logits(logits, wanted)));
}

// From hidden states that are their own logits.
Tensor logit_loss(const LogitOptions& options) {
  const auto head = std::make_shared<Linear>(Dim(4), Dim(4));
  head->weight()->bind(at::eye(4, at::kDouble));
  const Tokens tokens;
  return causal_lm_loss(tokens.logits.unsqueeze(0), *head, tokens.labels.unsqueeze(0), {}, options).loss;
}

PROBE(LogitOptions, scale) {
  Tokens scaled;
  scaled.logits = scaled.logits * 0.5;
  EXPECT_TRUE(is_close(logit_loss({.scale = 0.5}), scaled()));
}
PROBE(LogitOptions, bias) {
  const Tensor bias = at::tensor({0.5, -1.0, 2.0, 0.0}, at::kDouble);
  Tokens added;
  added.logits = added.logits + bias;
  EXPECT_TRUE(is_close(logit_loss({.bias = bias}), added()));
}
PROBE(LogitOptions, softcap) {
  Tokens capped;
  capped.logits = (capped.logits / 2).tanh() * 2;
  EXPECT_TRUE(is_close(logit_loss({.softcap = 2}), capped()));
}

}  // namespace
}  // namespace easydel::operations_probes

// One token through a layer in one operation, against the formulas in float64.
#include "easydel/operations/attention/decode_layer.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gmock/gmock.h>

#include <cmath>

#include "easydel/core/error.h"

namespace easydel::operations {
namespace {

using at::Tensor;

struct Sizes {
  int64_t hidden = 96, heads = 6, kv_heads = 2, head = 32, inner = 160, length = 11, capacity = 32, window = 0;
};

// A layer with random weights, packed in one format or float32; and its reference.
class Layer {
 public:
  Layer(const Sizes& sizes, std::optional<PackedFormat> format, bool bias) : s(sizes) {
    const int64_t query = s.heads * s.head, kv = s.kv_heads * s.head;
    const std::pair<int64_t, int64_t> shapes[] = {{query, s.hidden},  {kv, s.hidden},      {kv, s.hidden},
                                                  {s.hidden, query},  {s.inner, s.hidden}, {s.inner, s.hidden},
                                                  {s.hidden, s.inner}};
    DecodeMap* const maps[] = {&layer.q, &layer.k, &layer.v, &layer.out, &layer.gate, &layer.up, &layer.down};
    packed.resize(7);
    for (std::size_t i = 0; i < 7; ++i) {
      const auto [rows, width] = shapes[i];
      *maps[i] = {.rows = rows, .width = width};
      weights.push_back(at::randn({rows, width}) * 0.2);
      biases.push_back(bias ? at::randn({rows}) * 0.3 : Tensor());
      if (bias) maps[i]->bias = biases.back().const_data_ptr<float>();
      if (!format) {
        maps[i]->dense = weights.back().const_data_ptr<float>();
        continue;
      }
      PackedCodes& codes = packed[i];
      codes.format = *format;
      if (*format == PackedFormat::kInt8) {
        codes.codes = at::randint(-127, 128, {rows, width}, at::kChar);
        codes.scales = at::rand({rows}) * 0.3;
      } else {
        codes.codes = at::randint(0, 256, {rows, width / 2}, at::kByte);
        codes.scales = at::rand({rows, width / 32}) * (*format == PackedFormat::kInt4 ? 0.05 : 0.3);
        if (*format == PackedFormat::kInt4) codes.scales = codes.scales.to(at::kHalf);
      }
      weights.back() = unpack(codes);
      maps[i]->packed = &codes;
    }
    norms = {at::rand({s.hidden}) + 0.5, at::rand({s.hidden}) + 0.5};
    layer.before_attention = {norms[0].const_data_ptr<float>(), 1e-5};
    layer.before_mlp = {norms[1].const_data_ptr<float>(), 1e-6};
    layer.heads = s.heads;
    layer.kv_heads = s.kv_heads;
    layer.head_dim = s.head;
    layer.scale = 0.17;
    table = {at::rand({1, 1, s.head / 2}), at::rand({1, 1, s.head / 2})};
    layer.rope = &table;
    layer.keys = {at::randn({1, s.kv_heads, s.capacity, s.head}), at::randn({1, s.kv_heads, s.capacity, s.head})};
    layer.span = {.begin = s.window > 0 ? std::max<int64_t>(0, s.length + 1 - s.window) : 0, .end = s.length + 1};
    layer.act = &find_activation("silu");
  }

  Tensor expected(const Tensor& x_in) const {
    const Tensor x = x_in.to(at::kDouble).view({-1});
    const auto norm = [](const Tensor& v, const Tensor& weight, double eps) {
      return v * at::rsqrt(v.square().mean() + eps) * weight.to(at::kDouble);
    };
    const auto map = [&](std::size_t i, const Tensor& v) {
      const Tensor y = at::mv(weights[i].to(at::kDouble), v);
      return biases[i].defined() ? y + biases[i].to(at::kDouble) : y;
    };
    const auto turn = [&](const Tensor& heads) {
      if (!layer.rope) return heads;
      const Tensor c = table.cos.to(at::kDouble).view({-1}), t = table.sin.to(at::kDouble).view({-1});
      const Tensor a = heads.narrow(1, 0, s.head / 2), b = heads.narrow(1, s.head / 2, s.head / 2);
      return at::cat({a * c - b * t, b * c + a * t}, 1);
    };
    const Tensor read = norm(x, norms[0], 1e-5);
    const Tensor q = turn(map(0, read).view({s.heads, s.head})), k = turn(map(1, read).view({s.kv_heads, s.head}));
    const Tensor v = map(2, read).view({s.kv_heads, s.head});
    std::vector<Tensor> heads;
    for (int64_t h = 0; h < s.heads; ++h) {
      const int64_t shared = h / (s.heads / s.kv_heads);
      std::vector<Tensor> keys, values;
      for (int64_t slot = layer.span.begin; slot < layer.span.end - 1; ++slot) {
        keys.push_back(layer.keys.k[0][shared][slot % s.capacity].to(at::kDouble));
        values.push_back(layer.keys.v[0][shared][slot % s.capacity].to(at::kDouble));
      }
      keys.push_back(k[shared]);
      values.push_back(v[shared]);
      Tensor scores = at::mv(at::stack(keys), q[h]) * layer.scale;
      if (layer.softcap > 0) scores = at::tanh(scores / layer.softcap) * layer.softcap;
      heads.push_back(at::mv(at::stack(values).t(), at::softmax(scores, 0)));
    }
    const Tensor stream = x + map(3, at::cat(heads)), inner = norm(stream, norms[1], 1e-6);
    return stream + map(6, at::silu(map(4, inner)) * map(5, inner));
  }

  Sizes s;
  std::vector<Tensor> weights, biases, norms;
  std::vector<PackedCodes> packed;
  RopeTable table;
  DecodeLayer layer;
};

double error(const Tensor& y, const Tensor& expected) {
  return (y.view({-1}).to(at::kDouble) - expected).abs().max().item<double>() / expected.abs().max().item<double>();
}

TEST(DecodeLayer, IsTheLayersFormulas) {
  at::manual_seed(0);
  Sizes window, ring;
  window.window = 5;
  ring.window = ring.capacity = 8;  // a ring that has wrapped around
  ring.length = 21;
  Sizes long_one;
  long_one.length = 400;
  long_one.capacity = 512;
  for (const auto& [name, sizes] :
       {std::pair("plain", Sizes()), {"window", window}, {"ring", ring}, {"long", long_one}}) {
    for (const auto& format :
         std::vector<std::optional<PackedFormat>>{{}, PackedFormat::kInt8, PackedFormat::kNf4, PackedFormat::kInt4}) {
      for (const bool bias : {false, true}) {
        SCOPED_TRACE(testing::Message() << name << ", format " << (format ? static_cast<int>(*format) : -1) << bias);
        Layer layer(sizes, format, bias);
        ASSERT_EQ(decode_obstacle(layer.layer), nullptr);
        const Tensor x = at::randn({1, 1, sizes.hidden});
        const Tensor expected = layer.expected(x);
        // int4 rounds each x to one of 255 numbers; docs/quantization.md bounds the error.
        EXPECT_LT(error(decode_layer(x, layer.layer), expected), format == PackedFormat::kInt4 ? 0.03 : 2e-5);
      }
    }
  }
}

TEST(DecodeLayer, OptionsAndThreads) {
  at::manual_seed(1);
  Layer layer(Sizes(), PackedFormat::kInt8, false);
  const Tensor x = at::randn({1, 1, layer.s.hidden});
  layer.layer.softcap = 1.5;
  EXPECT_LT(error(decode_layer(x, layer.layer), layer.expected(x)), 2e-5);
  layer.layer.rope = nullptr;
  const Tensor expected = layer.expected(x);
  const int threads = at::get_num_threads();
  for (const int count : {1, 2, 3, 7}) {
    at::set_num_threads(count);
    EXPECT_LT(error(decode_layer(x, layer.layer), expected), 2e-5) << count << " threads";
  }
  at::set_num_threads(threads);
}

TEST(DecodeLayer, WritesTheNewKeyAndValueAndNothingElse) {
  at::manual_seed(2);
  Layer layer(Sizes(), std::nullopt, false);
  const Tensor k = layer.layer.keys.k.clone(), v = layer.layer.keys.v.clone();
  decode_layer(at::randn({1, 1, layer.s.hidden}), layer.layer);
  for (int64_t slot = 0; slot < layer.s.capacity; ++slot) {
    const bool is_new = slot == layer.s.length;
    EXPECT_EQ(at::equal(k.select(2, slot), layer.layer.keys.k.select(2, slot)), !is_new) << slot;
    EXPECT_EQ(at::equal(v.select(2, slot), layer.layer.keys.v.select(2, slot)), !is_new) << slot;
  }
}

TEST(DecodeLayer, RejectsUnsupportedLayers) {
  at::manual_seed(3);
  Layer layer(Sizes(), PackedFormat::kInt8, false);
  EXPECT_THROW(decode_layer(at::randn({1, 2, layer.s.hidden}), layer.layer), ShapeError);
  EXPECT_THROW(decode_layer(at::randn({1, 1, layer.s.hidden}, at::kDouble), layer.layer), ShapeError);
  Layer other(Sizes(), PackedFormat::kNf4, false);
  layer.layer.k = other.layer.k;  // q and k would read x in two forms
  EXPECT_STREQ(decode_obstacle(layer.layer), "weights that share an input are packed in different ways");
}

}  // namespace
}  // namespace easydel::operations

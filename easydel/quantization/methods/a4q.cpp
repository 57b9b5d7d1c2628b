// a4q: 4-bit weights, as int4 has them, and 4-bit activations: each group of a token's channels is rounded to 15 steps
// of its largest value when it arrives. The channels that calibration data finds largest stay as they are.
#include <ATen/ATen.h>

#include <algorithm>

#include "easydel/core/error.h"
#include "easydel/quantization/methods/int4.h"
#include "easydel/sharding/weight_sharding.h"

namespace easydel::quantization {
namespace {

constexpr int64_t kChannelsPerOutlier = 16;  // one channel in this many is kept

class A4q : public Int4 {
 public:
  using Int4::Int4;
  bool needs_calibration() const override { return true; }
  std::optional<operations::PackedFormat> format() const override { return std::nullopt; }

  std::vector<Part> parts(int64_t out, int64_t in) const override {
    std::vector<Part> parts = Int4::parts(out, in);
    parts.push_back({"weight.outliers", uint8, {{PartDim::Of::Columns}}});
    return parts;
  }

  std::vector<at::Tensor> quantize(const at::Tensor& matrix, const ChannelStatistics* seen) const override {
    require<ConfigError>(seen != nullptr, "[quantize] a4q needs calibration data.");
    std::vector<at::Tensor> parts = Int4::quantize(matrix, seen);
    const at::Tensor outliers = at::zeros({matrix.size(1)}, at::kByte);
    const int64_t kept = (matrix.size(1) + kChannelsPerOutlier - 1) / kChannelsPerOutlier;
    outliers.index_fill_(0, std::get<1>(seen->max_abs.topk(kept)), 1);
    parts.push_back(outliers);
    return parts;
  }

  std::vector<at::Tensor> requantize(const at::Tensor& matrix, const std::vector<at::Tensor>& old) const override {
    std::vector<at::Tensor> parts = Int4::quantize(matrix, nullptr);
    parts.push_back(old[2]);
    return parts;
  }

  at::Tensor multiply(const at::Tensor& x, const LocalShard& held) const override {
    const at::Tensor outliers = (held.cut ? take(held.parts[2], {*held.cut}) : held.parts[2]).to(at::kBool);
    const at::Tensor given = x.to(at::kFloat);
    const at::Tensor rounded = round(given.masked_fill(outliers, 0), held);
    return Int4::multiply(at::where(outliers, given, rounded).to(x.scalar_type()), held);
  }

 private:
  // To 15 steps of the largest value of each group.
  at::Tensor round(const at::Tensor& x, const LocalShard& held) const {
    const int64_t group = settings_.group_size;
    const auto scales = [&](const at::Tensor& channels) {
      return channels.unflatten(-1, {-1, group}).abs().amax({-1}, /*keepdim=*/true);
    };
    const auto rounded = [](const at::Tensor& values, const at::Tensor& largest) {
      const at::Tensor scale = (largest / 7.0).clamp_min_(1e-30);
      return (values / scale).round_().mul_(scale);
    };
    if (!held.cut) return rounded(x.unflatten(-1, {-1, group}), scales(x)).flatten(-2);
    // Groups that several ranks share: each puts in the channels that it has.
    std::vector<at::Tensor> runs;
    for (const Interval& i : *held.cut) runs.push_back(at::arange(i.begin, i.end, x.options().dtype(at::kLong)));
    std::vector<int64_t> shape = x.sizes().vec();
    shape.back() = held.in;
    const at::Tensor all = at::zeros(shape, x.options()), places = runs.empty() ? at::Tensor() : at::cat(runs);
    if (places.defined()) all.index_copy_(-1, places, x);
    const at::Tensor largest = scales(all).contiguous();
    if (held.together) held.together->all_reduce(largest, ReduceOp::Max);
    const at::Tensor whole = rounded(all.unflatten(-1, {-1, group}), largest).flatten(-2);
    return places.defined() ? whole.index_select(-1, places) : x;
  }
};

}  // namespace

std::shared_ptr<const Method> make_a4q(const QuantizeOptions& given) {
  QuantizeOptions settings = given;
  if (settings.group_size == 0) settings.group_size = 32;
  return std::make_shared<A4q>(settings);
}

}  // namespace easydel::quantization

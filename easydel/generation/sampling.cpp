#include "easydel/generation/sampling.h"

#include <ATen/ATen.h>

#include <limits>

#include "easydel/core/error.h"

namespace easydel {
namespace {

constexpr int64_t kStepsAhead = 64;

}  // namespace

double uniform_at(RandomKey key, int64_t stream, int64_t step) {
  const auto low = [](int64_t x) { return static_cast<uint32_t>(static_cast<uint64_t>(x)); };
  const auto high = [](int64_t x) { return static_cast<uint32_t>(static_cast<uint64_t>(x) >> 32); };
  const auto bits = philox4x32({low(step), high(step), low(stream), high(stream)},
                               {static_cast<uint32_t>(key.bits()), static_cast<uint32_t>(key.bits() >> 32)});
  const uint64_t wide = (static_cast<uint64_t>(bits[0]) << 16) | (bits[1] & 0xFFFF);
  return static_cast<double>(wide) * 0x1p-48;
}

UniformStream::UniformStream(RandomKey key, std::vector<int64_t> streams, at::Device device)
    : key_(key.fold("generate")), streams_(std::move(streams)), device_(device) {}

void UniformStream::fill(int64_t first) {
  const auto rows = static_cast<int64_t>(streams_.size());
  const at::Tensor host = at::empty({kStepsAhead, rows}, at::kDouble);
  double* out = host.mutable_data_ptr<double>();
  for (int64_t step = first; step < first + kStepsAhead; ++step) {
    for (const int64_t stream : streams_) *out++ = uniform_at(key_, stream, step);
  }
  table_ = host.to(device_);
  first_ = first;
}

at::Tensor UniformStream::at_step(int64_t step) {
  if (first_ < 0 || step < first_ || step >= first_ + kStepsAhead) fill(step - step % kStepsAhead);
  return table_.select(0, step - first_);
}

at::Tensor sample_tokens(const at::Tensor& scores, const at::Tensor& uniform) {
  // Added up in float64: in float32 the sum over a large vocabulary loses the rare tokens.
  const at::Tensor sums = scores.softmax(-1).cumsum(-1, at::kDouble);
  const at::Tensor total = sums.narrow(-1, sums.size(-1) - 1, 1);
  // The first token whose sum lies above the threshold; one of probability 0 adds nothing and is never that.
  const at::Tensor tokens =
      at::searchsorted(sums, uniform.unsqueeze(-1) * total, /*out_int32=*/false, /*right=*/true).squeeze(-1);
  return at::where(total.squeeze(-1).isfinite(), tokens.clamp_max(sums.size(-1) - 1), -1);
}

at::Tensor sample_without_replacement(const at::Tensor& scores, int64_t count, RandomKey key,
                                      const std::vector<int64_t>& streams, int64_t step) {
  // Gumbel's trick: the best of log p + noise are a draw without replacement.
  const at::Tensor noise = at::empty(scores.sizes(), at::kFloat);
  for (std::size_t row = 0; row < streams.size(); ++row) {
    const RandomKey row_key =
        key.fold("generate").fold(static_cast<uint64_t>(streams[row])).fold(static_cast<uint64_t>(step));
    fill_uniform(noise.select(0, static_cast<int64_t>(row)), row_key, std::numeric_limits<float>::min(), 1.0);
  }
  const at::Tensor gumbel = -(-noise.to(scores.device()).clamp_min(0x1p-25).log()).log();
  return std::get<1>((scores + gumbel).topk(count));
}

}  // namespace easydel

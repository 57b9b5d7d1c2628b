#include "easydel/generation/speech/token_times.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

namespace easydel {
namespace {

constexpr double kSecondsPerState = 0.02;

// Medians of `width` neighbours along the last dimension, which is mirrored at its ends.
at::Tensor median_filter(const at::Tensor& x_NTS, int64_t width) {
  const int64_t side = width / 2;
  if (x_NTS.size(-1) <= side) return x_NTS;
  const at::Tensor padded = at::reflection_pad1d(x_NTS, {side, side});
  return std::get<0>(padded.unfold(-1, width, 1).sort()).select(-1, side);
}

}  // namespace

std::vector<int64_t> warp_time(const at::Tensor& cost_TS) {
  const at::Tensor host = cost_TS.to(at::kCPU, at::kDouble).contiguous();
  const double* const step_cost = host.const_data_ptr<double>();
  const int64_t rows = host.size(0), columns = host.size(1), width = columns + 1;
  enum : uint8_t { kBoth, kDown, kRight };
  // Sums are float32, as those of transformers are.
  std::vector<float> sums(static_cast<std::size_t>((rows + 1) * width), std::numeric_limits<float>::infinity());
  std::vector<uint8_t> came(sums.size(), kRight);
  const auto at = [&](int64_t i, int64_t j) { return static_cast<std::size_t>(i * width + j); };
  sums[0] = 0;
  for (int64_t i = 1; i <= rows; ++i) {
    came[at(i, 0)] = kDown;
    for (int64_t j = 1; j <= columns; ++j) {
      const float both = sums[at(i - 1, j - 1)], down = sums[at(i - 1, j)], right = sums[at(i, j - 1)];
      const uint8_t way = both < down && both < right ? kBoth : down < both && down < right ? kDown : kRight;
      const float before = way == kBoth ? both : way == kDown ? down : right;
      sums[at(i, j)] = static_cast<float>(step_cost[(i - 1) * columns + j - 1] + static_cast<double>(before));
      came[at(i, j)] = way;
    }
  }
  std::vector<int64_t> begins(static_cast<std::size_t>(rows));
  for (int64_t i = rows, j = columns; i > 0;) {
    begins[static_cast<std::size_t>(i - 1)] = j - 1;  // the last one that is written is the first of its row
    const uint8_t way = came[at(i, j)];
    if (way != kDown) --j;
    if (way != kRight) --i;
  }
  return begins;
}

std::vector<double> token_times(const std::vector<at::Tensor>& attentions,
                                const std::vector<std::pair<int64_t, int64_t>>& heads, int64_t states,
                                int64_t filter_width) {
  std::vector<at::Tensor> chosen;
  for (const auto& [layer, head] : heads) {
    const at::Tensor& weights_NTS = attentions[static_cast<std::size_t>(layer)];
    chosen.push_back(weights_NTS[head].narrow(-1, 0, std::min(states, weights_NTS.size(-1))).to(at::kFloat));
  }
  const at::Tensor weights_NTS = at::stack(chosen);
  const at::Tensor mean = weights_NTS.mean(-2, /*keepdim=*/true);
  const at::Tensor deviation = weights_NTS.std(at::IntArrayRef{-2}, /*unbiased=*/false, /*keepdim=*/true);
  const at::Tensor smooth = median_filter((weights_NTS - mean) / deviation, filter_width);
  std::vector<double> times;
  for (const int64_t state : warp_time(smooth.mean(0).neg()))  // -1: before the first one, where weights are no numbers
    times.push_back(static_cast<double>(std::max<int64_t>(state, 0)) * kSecondsPerState);
  return times;
}

}  // namespace easydel

#include "easydel/infra/decoder/embedding_noise.h"

#include <ATen/ATen.h>

#include <cmath>

#include "easydel/sharding/parallel.h"

namespace easydel {
namespace {

// Longer than any row, so that a token's noise does not depend on how rows are filled up.
constexpr int64_t kLongestRow = int64_t{1} << 24;

thread_local EmbeddingNoise* current_noise = nullptr;

}  // namespace

EmbeddingNoise::EmbeddingNoise(const BaseModule& model, double alpha, RandomKey key, int64_t width)
    : parallel_(model.parallel().get()), alpha_(alpha), key_(key), width_(width) {
  for (const auto& [path, module] : model.named_modules()) modules_.insert(module);
  current_noise = this;
}

EmbeddingNoise::~EmbeddingNoise() { current_noise = nullptr; }

at::Tensor EmbeddingNoise::add(const at::Tensor& x_BTD, const Embedding& table) {
  EmbeddingNoise* noise = current_noise;
  if (!noise || !noise->modules_.contains(&table)) return x_BTD;
  const auto place = [&](const AxisNames& axes, int64_t own) {
    return noise->parallel_ ? noise->parallel_->mesh().index(axes) * own : 0;
  };
  const int64_t rows = x_BTD.size(0), tokens = x_BTD.size(1), features = x_BTD.size(2);
  const AxisNames none;
  const int64_t row = place(noise->parallel_ ? noise->parallel_->batch() : none, rows);
  const int64_t token = place(noise->parallel_ ? noise->parallel_->sequence() : none, tokens);
  const Region region{{row + rows, kLongestRow, features}, {row, token, 0}};
  const double most = noise->alpha_ / std::sqrt(static_cast<double>(noise->width_ * features));
  const at::Tensor drawn = at::empty(x_BTD.sizes(), x_BTD.options().requires_grad(false));
  fill_uniform(drawn, noise->key_.fold(noise->times_++), -most, most, &region);
  return x_BTD + drawn;
}

}  // namespace easydel

// Noise on the embeddings of tokens in training: NEFTune, https://huggingface.co/papers/2310.05914.
#pragma once

#include <cstdint>
#include <set>

#include "easydel/core/random.h"
#include "easydel/infra/base_module.h"
#include "easydel/layers/embedding.h"

namespace easydel {

// While it lives, whatever embeds tokens on this thread with a table of `model` adds uniform noise between
// -alpha / sqrt(width * features) and its opposite. Only one may live at a time on a thread. The noise of a token
// depends on the key, its row and its place, and on how often the model embedded before: on a mesh it is that of one
// device.
class EmbeddingNoise {
 public:
  // `width`: tokens of a row of the batch, padding included.
  EmbeddingNoise(const BaseModule& model, double alpha, RandomKey key, int64_t width);
  ~EmbeddingNoise();
  EmbeddingNoise(const EmbeddingNoise&) = delete;
  EmbeddingNoise& operator=(const EmbeddingNoise&) = delete;

  bool was_added() const { return times_ > 0; }

  // Embeddings [B, T, D] by `table`, with the noise that this thread has for it.
  static at::Tensor add(const at::Tensor& x_BTD, const Embedding& table);

 private:
  std::set<const Module*> modules_;
  const Parallel* parallel_;
  double alpha_;
  RandomKey key_;
  int64_t width_;
  uint64_t times_ = 0;
};

}  // namespace easydel

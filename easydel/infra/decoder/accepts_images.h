// Decoders that accept images: the features that replace image placeholders, for callers that run a prompt in chunks.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace easydel {

struct ModelInputs;

class AcceptsImages {
 public:
  virtual ~AcceptsImages() = default;

  virtual int64_t image_token_id() const = 0;
  // Whether attention is bidirectional within the tokens of an image: then they must be in one piece, and
  // token_type_ids say which they are.
  virtual bool needs_whole_images() const { return false; }
  // The number of first layers of the decoder that get features besides its embeddings. Then features and inputs_embeds
  // have D (1 + layers) numbers: those of the embeddings, and behind them what is added to the output of each layer.
  virtual int64_t deep_layers() const { return 0; }
  // [features, D (1 + deep_layers())] of the images, one after the other.
  virtual at::Tensor encode_images(const ModelInputs& images) const = 0;
  // The inputs_embeds of tokens, of that width too, with features [n, …] in the places [n], counted over rows.
  virtual at::Tensor embed_with_images(const at::Tensor& ids_BT, const at::Tensor& features,
                                       const at::Tensor& places) const = 0;
  // [3, B, T] of tokens with these images, where an image's tokens have positions by row and column; undefined:
  // positions count on.
  virtual at::Tensor image_positions(const at::Tensor& ids_BT, const ModelInputs& images) const { return {}; }
};

}  // namespace easydel

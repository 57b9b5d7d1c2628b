// Decoders that see: what stands in the place of a picture's placeholders, for callers who run a prompt in pieces.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace easydel {

struct ModelInputs;

class SeesPictures {
 public:
  virtual ~SeesPictures() = default;

  virtual int64_t image_token_id() const = 0;
  // Whether the tokens of a picture see one another in both directions: then they must be in one piece, and
  // token_type_ids say which they are.
  virtual bool sees_whole_pictures() const { return false; }
  // [features, D] of the pictures, one after the other.
  virtual at::Tensor picture_features(const ModelInputs& pictures) const = 0;
  // The inputs_embeds [B, T, D] of tokens, with features [n, D] in the places [n], counted over rows.
  virtual at::Tensor embed_with_pictures(const at::Tensor& ids_BT, const at::Tensor& features,
                                         const at::Tensor& places) const = 0;
};

}  // namespace easydel

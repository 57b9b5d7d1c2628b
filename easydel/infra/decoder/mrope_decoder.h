// The text model of a vision-language model with M-RoPE: a decoder whose first layers may be given features besides.
#pragma once

#include <functional>
#include <vector>

#include "easydel/infra/decoder/decoder.h"
#include "easydel/infra/decoder/mrope.h"

namespace easydel {

class MropeDecoder : public BaseModule {
 public:
  ModelOutput forward(const PreparedInputs& inputs) const override { return forward(inputs, {}); }
  // After layer i, added[i] [B, T, D] is added.
  ModelOutput forward(const PreparedInputs& inputs, const std::vector<at::Tensor>& added) const;
  const Embedding& embeddings() const { return embed_tokens_; }

 protected:
  MropeDecoder(const DecoderConfig& config, MropeAxes axes, const std::function<BlockSpec(int64_t layer)>& layer);

 private:
  const MropeAxes axes_;
  const Embedding& embed_tokens_;
  ModuleList<DecoderBlock>& layers_;
  const Norm& norm_;
};

}  // namespace easydel

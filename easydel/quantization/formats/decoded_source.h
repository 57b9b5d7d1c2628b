// Files of a packed format, seen as files of dense weights: each is made when it is asked for.
#pragma once

#include "easydel/io/tensor_source.h"
#include "easydel/quantization/formats/format.h"

namespace easydel::quantization {

class DecodedSource final : public TensorSource {
 public:
  DecodedSource(std::shared_ptr<const TensorSource> files, Decoding decoding);
  const Decoding& decoding() const { return decoding_; }
  void copy(const at::Tensor& view, const at::Tensor& out) const override { files_->copy(view, out); }

 private:
  at::Tensor load(const TensorInfo& info) const override;

  std::shared_ptr<const TensorSource> files_;
  Decoding decoding_;
};

// What decode() refuses is refused here.
std::shared_ptr<const DecodedSource> decoded_source(const Json& config, std::shared_ptr<const TensorSource> files,
                                                    bool is_needed = true);

}  // namespace easydel::quantization

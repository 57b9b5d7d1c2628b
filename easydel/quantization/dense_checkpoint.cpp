#include "easydel/quantization/dense_checkpoint.h"

#include "easydel/core/error.h"
#include "easydel/quantization/formats/decoded_source.h"

namespace easydel::quantization {

std::shared_ptr<const TensorSource> open_dense(std::shared_ptr<const Checkpoint> checkpoint, const Json& config) {
  const auto files = std::make_shared<const FormatFiles>(checkpoint);
  const std::string method = text_setting(config, "quant_method", "");
  require<NotSupportedError>(method != "easydel", "[convert] ", checkpoint->where(),
                             " has weights in EasyDeL's own packed form, which is not converted. Omit --dtype to keep "
                             "the weights unchanged, or convert the original model.");
  Decoding decoding = method.empty() ? decode_by_names(config, files) : decode(config, files);
  if (decoding.weights.empty()) return checkpoint;
  return std::make_shared<const DecodedSource>(std::move(checkpoint), std::move(decoding));
}

}  // namespace easydel::quantization

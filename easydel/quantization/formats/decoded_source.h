// Files of a packed format, seen as files of dense weights: each is made when it is asked for.
#pragma once

#include "easydel/infra/files/weights.h"
#include "easydel/quantization/formats/format.h"

namespace easydel::quantization {

struct DecodedSource {
  WeightSource source;
  std::shared_ptr<const Decoding> decoding;
};

// What decode() refuses is refused here.
DecodedSource decoded_source(const Json& config, const WeightSource& files, bool is_needed = true);

}  // namespace easydel::quantization

// FP8: weight float8 with weight_scale_inv for blocks of 128 by 128 (DeepSeek) or of weight_block_size, for rows, or
// one for all; also called weight_scale.
#include "easydel/quantization/formats/floats.h"

namespace easydel::quantization {
namespace {

constexpr int64_t kFp8Block = 128;

std::pair<int64_t, int64_t> block_size(const Json& config, const std::string& where) {
  const Json* sizes = config.find("weight_block_size");
  if (!sizes || sizes->is_null()) return {kFp8Block, kFp8Block};
  const bool fits = sizes->is_array() && sizes->size() == 2 && sizes->at(0).is_int() && sizes->at(1).is_int() &&
                    sizes->at(0).as_int() > 0 && sizes->at(1).as_int() > 0;
  require<NotSupportedError>(fits, "[", where,
                             "] quantization_config.weight_block_size must be two positive integers; got ",
                             sizes->dump(), ".");
  return {sizes->at(0).as_int(), sizes->at(1).as_int()};
}

}  // namespace

void plan_fp8(const Json& config, const Files& files, Decoding& out) {
  const std::string format = text_setting(config, "fmt", "e4m3");
  require<NotSupportedError>(format == "e4m3" || format == "e5m2", "[", files->where(),
                             "] quantization_config.fmt must be e4m3 or e5m2; got ", quoted(format), ".");
  const auto blocks = block_size(config, files->where());
  for (const TensorInfo& info : files->infos()) {
    const std::string& name = info.name;
    if (!name.ends_with("_scale_inv") && !name.ends_with("_scale")) continue;
    const std::string weight = name.substr(0, name.rfind("_scale"));
    const TensorInfo* codes = files->find(weight);
    if (!codes || !is_fp8(codes->dtype)) continue;  // a parameter of some model
    out.hidden.insert(name);
    const std::string prefix = weight.substr(0, weight.rfind('.') + 1);
    for (const char* inputs : {"input_scale", "activation_scale", "input_scale_ub"}) {
      if (files->contains(prefix + inputs)) out.hidden.insert(prefix + inputs);
    }
    out.weights[weight] = fp8_weight(files, weight, name, blocks);
  }
}

}  // namespace easydel::quantization

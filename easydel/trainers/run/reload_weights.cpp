#include "easydel/trainers/run/reload_weights.h"

#include <ATen/ATen.h>

#include "easydel/core/error.h"
#include "easydel/infra/files/packed_files.h"
#include "easydel/infra/files/weights.h"
#include "easydel/io/checkpoint.h"

namespace easydel {

void reload_weights(BaseModule& model, const std::filesystem::path& path) {
  const Json config = Json::parse_file((path / "config.json").string());
  const Json* type = config.find("model_type");
  require<ConfigError>(type && *type == Json(model.model_type()), "[resume_from] ", path.string(), " is a ",
                       type ? type->dump() : "nameless", " model; this run trains \"", model.model_type(), "\".");
  const auto checkpoint = Checkpoint::open(path);
  const DType dtype = model.param_dtype();
  LoadedWeights weights =
      load_weights(model, *adapt_source(model, checkpoint), [&](const at::Tensor& t, const Parameter& p) {
        return t.to(at::TensorOptions(at::isFloatingType(t.scalar_type()) ? p.dtype_in(dtype) : t.scalar_type())
                        .device(model.options().device),
                    /*non_blocking=*/false, /*copy=*/true);
      });
  require<FormatError>(weights.missing.empty(), "[resume_from] ", path.string(), " lacks ", weights.missing.size(),
                       " parameters of this model, \"", weights.missing.empty() ? "" : weights.missing.front(),
                       "\" is the first.");
  require<FormatError>(weights.unexpected.empty(), "[resume_from] ", path.string(), " has ", weights.unexpected.size(),
                       " tensors that this model lacks, \"",
                       weights.unexpected.empty() ? "" : weights.unexpected.front(), "\" is the first.");
  bind_weights(model, std::move(weights), checkpoint->where());
}

}  // namespace easydel

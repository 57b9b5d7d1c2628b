#include "easydel/infra/init_cache.h"

#include <algorithm>

#include "easydel/core/error.h"
#include "easydel/core/memory.h"
#include "easydel/core/text/bytes.h"
#include "easydel/infra/base_module.h"
#include "easydel/layers/attention/attention.h"
#include "easydel/layers/attention/latent_attention.h"
#include "easydel/layers/recurrent/recurrent_mixer.h"

namespace easydel {
namespace {

// What each layer keeps is asked of its attention; a recurrent layer keeps nothing for a token.
std::vector<LayerKeys> layer_keys(const BaseModule& model) {
  std::vector<LayerKeys> layers;
  std::string tower;  // of images, whose attention has nothing to keep
  for (const auto& [path, module] : model.named_modules()) {
    const auto* below = dynamic_cast<const BaseModule*>(module);
    if (below && below->main_input_name() == "pixel_values") tower = path + ".";
    if (!tower.empty() && path.starts_with(tower)) continue;
    const auto keep = [&layers](const auto& attention) {
      const auto index = static_cast<std::size_t>(attention.layer_idx());
      if (layers.size() <= index) layers.resize(index + 1);
      layers[index] = attention.cached_keys();
    };
    if (const auto* attention = dynamic_cast<const Attention*>(module); attention && attention->is_cached())
      keep(*attention);
    if (const auto* attention = dynamic_cast<const LatentAttention*>(module)) keep(*attention);
    if (const auto* mixer = dynamic_cast<const RecurrentMixer*>(module))
      layers.resize(std::max(layers.size(), static_cast<std::size_t>(mixer->layer_idx()) + 1));
  }
  require<NotSupportedError>(!layers.empty(), "[init_cache] ", model.type_name(), " has no attention layers to cache.");
  return layers;
}

void refuse_recurrent(const BaseModule& model) {
  for (const auto& [path, module] : model.named_modules()) {
    require<NotSupportedError>(dynamic_cast<const RecurrentMixer*>(module) == nullptr, "[create_paged_metadata] ",
                               model.type_name(),
                               " has recurrent layers, which keep one state for each row and nothing in pages. Use "
                               "generate with a dense cache.");
  }
}

at::Device device_of(const BaseModule& model) {
  const auto parameters = model.named_parameters();
  require<ConfigError>(!parameters.empty() && !model.is_lazy(), "[init_cache] ", model.type_name(),
                       " has no weights yet, so it is on no device.");
  return parameters.front().parameter->value().device();
}

// What the config says of the cache, in either of its ways; else what the model computes in.
DType cache_dtype(const BaseModule& model) {
  const BaseConfig& config = model.config();
  const Json& given = config.quantization.kv_cache;
  if (given.is_null()) {
    const DType dtype = config.attention.kv_dtype.value_or(model.dtype());
    require<ConfigError>(at::isFloatingType(dtype) || dtype == at::kChar,
                         "[init_cache] kvdtype must be a floating-point dtype or int8; got ", dtype_name(dtype), ".");
    return dtype;
  }
  for (const char* key : {"dtype", "method", "quantization_method"}) {
    const Json* method = given.is_object() ? given.find(key) : nullptr;
    if (method && method->is_string() && (method->as_string() == "int8" || method->as_string() == "8bit"))
      return at::kChar;
  }
  fail<NotSupportedError>("[init_cache] kv_cache_quantization_config must be {\"dtype\": \"int8\"}; got ", given.dump(),
                          ".");
}

}  // namespace

TransformerMetadata create_cache_metadata(const BaseModule& model, int64_t batch_size, int64_t max_length,
                                          std::optional<int64_t> pad_token_id) {
  require<ConfigError>(batch_size > 0 && max_length > 0,
                       "[create_cache_metadata] batch_size and max_length must be positive; got ", batch_size, " and ",
                       max_length, ".");
  TransformerMetadata metadata;
  const int64_t parts = model.parallel() ? model.parallel()->mesh().size(model.parallel()->batch()) : 1;
  metadata.batch_size = (batch_size + parts - 1) / parts;
  metadata.max_length = max_length;
  metadata.pad_token_id = pad_token_id ? pad_token_id : model.config().pad_token_id;
  metadata.layers = layer_keys(model);
  metadata.dtype = cache_dtype(model);
  metadata.device = device_of(model);
  metadata.parallel = model.parallel();
  return metadata;
}

std::shared_ptr<TransformerCache> init_cache(const BaseModule& model, int64_t batch_size, int64_t max_length,
                                             const at::Tensor& starts, std::optional<int64_t> pad_token_id) {
  TransformerMetadata metadata = create_cache_metadata(model, batch_size, max_length, pad_token_id);
  at::Tensor own = starts;
  if (starts.defined() && model.parallel()) {
    require<ShapeError>(starts.dim() == 1 && starts.size(0) == batch_size, "[init_cache] starts must be [", batch_size,
                        "]; got ", starts.sizes(), ".");
    const int64_t parts = model.parallel()->mesh().size(model.parallel()->batch()), rows = metadata.batch_size;
    own = at::cat({starts, at::zeros({rows * parts - batch_size}, starts.options())})
              .narrow(0, rows * model.parallel()->mesh().index(model.parallel()->batch()), rows);
  }
  return std::make_shared<TransformerCache>(std::move(metadata), own);
}

RaggedPagesMetadata create_paged_metadata(const BaseModule& model, double hbm_utilization, int64_t page_size,
                                          int64_t max_model_length) {
  require<ConfigError>(hbm_utilization > 0 && hbm_utilization <= 1,
                       "[create_paged_metadata] hbm_utilization is a share of the free memory, in (0, 1]; got ",
                       hbm_utilization, ".");
  require<ConfigError>(page_size > 0 && max_model_length > 0,
                       "[create_paged_metadata] page_size and max_model_length must be positive; got ", page_size,
                       " and ", max_model_length, ".");
  refuse_recurrent(model);
  RaggedPagesMetadata metadata;
  metadata.page_size = page_size;
  metadata.max_model_length = max_model_length;
  metadata.layers = layer_keys(model);
  metadata.dtype = cache_dtype(model);
  metadata.device = device_of(model);
  metadata.parallel = model.parallel();
  const int64_t free = available_memory(metadata.device).value_or(0);
  const int64_t page = std::max<int64_t>(1, metadata.page_bytes());
  metadata.num_pages = static_cast<int64_t>(hbm_utilization * static_cast<double>(free)) / page;
  if (model.parallel()) {  // ranks go on together, so the one with the least memory decides
    const at::Tensor pages = at::full({1}, metadata.num_pages, at::TensorOptions(at::kLong).device(metadata.device));
    model.parallel()->everyone().all_reduce(pages, ReduceOp::Min);
    metadata.num_pages = pages.item<int64_t>();
  }
  metadata.num_pages = std::min<int64_t>(metadata.num_pages, std::numeric_limits<int32_t>::max());
  require<ConfigError>(metadata.num_pages > 0, "[create_paged_metadata] one page of ", page_size, " tokens takes ",
                       format_bytes(page), "; ", hbm_utilization, " of the ", format_bytes(free),
                       " that are free is less.");
  return metadata;
}

std::shared_ptr<Cache> init_operations_cache(const BaseModule& model, const OperationsCacheOptions& options) {
  if (!options.page_size) return init_cache(model, options.batch_size, options.max_length, options.starts);
  return std::make_shared<RaggedPagesCache>(
      create_paged_metadata(model, options.hbm_utilization, *options.page_size, options.max_length));
}

}  // namespace easydel

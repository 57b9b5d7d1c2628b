// Caches for a model, on its device and mesh. Sizes are those of the whole batch; on a mesh a rank keeps its rows, its
// heads, and its share of a sequence that is split.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>

#include "easydel/caching/ragged_pages_cache.h"
#include "easydel/caching/transformer_cache.h"

namespace easydel {

class BaseModule;

struct OperationsCacheOptions {
  int64_t batch_size = 1;
  int64_t max_length = 0;
  at::Tensor starts = {};  // [batch_size]: the first slot of each row that is not padding
  std::optional<int64_t> page_size = {};
  double hbm_utilization = 0.9;
};

TransformerMetadata create_cache_metadata(const BaseModule& model, int64_t batch_size, int64_t max_length,
                                          std::optional<int64_t> pad_token_id = {});
std::shared_ptr<TransformerCache> init_cache(const BaseModule& model, int64_t batch_size, int64_t max_length,
                                             const at::Tensor& starts = {}, std::optional<int64_t> pad_token_id = {});
// As many pages as this share of the free memory holds.
RaggedPagesMetadata create_paged_metadata(const BaseModule& model, double hbm_utilization, int64_t page_size,
                                          int64_t max_model_length);
// Pages where a page size is given, else a dense cache.
std::shared_ptr<Cache> init_operations_cache(const BaseModule& model, const OperationsCacheOptions& options);

}  // namespace easydel

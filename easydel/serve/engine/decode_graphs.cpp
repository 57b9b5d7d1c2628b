#include "easydel/serve/engine/decode_graphs.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "easydel/core/build_info.h"
#include "easydel/core/error.h"
#include "easydel/core/log.h"
#include "easydel/generation/graph_step.h"
#include "easydel/infra/base_module.h"
#include "easydel/operations/rope.h"

#if EASYDEL_HAS_CUDA
#include <ATen/cuda/CUDAGraph.h>
#endif

namespace easydel::serve {

#if EASYDEL_HAS_CUDA
namespace {

// Sizes for which there is a graph: few enough that all are captured soon, near enough that little is computed in vain.
int64_t captured_batch(int64_t rows) {
  for (const int64_t size : {1, 2, 4, 8, 16, 32}) {
    if (rows <= size) return size;
  }
  return (rows + 31) / 32 * 32;
}

int64_t captured_pages(int64_t pages) {
  const int64_t grain = pages <= 128 ? 16 : pages <= 512 ? 64 : 512;
  return (pages + grain - 1) / grain * grain;
}

class CudaDecodeGraphs final : public DecodeGraphs {
 public:
  CudaDecodeGraphs(std::shared_ptr<const BaseModule> model, std::shared_ptr<RaggedPagesCache> cache, int64_t max_batch)
      : model_(std::move(model)), cache_(std::move(cache)), max_batch_(max_batch) {}

  std::optional<at::Tensor> run(const StepInputs& inputs) override {
    const auto rows = static_cast<int64_t>(inputs.parts.size());
    if (!can_capture_ || rows > max_batch_ || !is_decode(inputs)) return std::nullopt;
    std::size_t pages = 1;
    for (const RaggedBatch::Part& part : inputs.parts) pages = std::max(pages, part.pages.size());
    const std::pair key(captured_batch(rows), captured_pages(static_cast<int64_t>(pages)));
    Step& step = steps_[key];
    if (!step.batch) prepare(step, key.first, key.second);
    fill(step, inputs);
    if (!step.is_warm) return warm_up(step, rows);
    if (!step.graph) {
      if (!pool_) pool_ = at::cuda::graph_pool_handle();
      step.graph = capture_graph([&] { step.logits = forward(step); }, "[engine] the decode step", *pool_);
      if (!step.graph) {
        give_up();
        return std::nullopt;
      }
    }
    step.graph->replay();
    return step.logits.narrow(0, 0, rows);
  }

 private:
  struct Step {
    std::shared_ptr<DecodeBatch> batch;
    at::Tensor longs;  // ids, positions and slots
    at::Tensor ints;   // lengths and the table
    at::Tensor logits;
    bool is_warm = false;
    std::unique_ptr<at::cuda::CUDAGraph> graph;
  };

  void give_up() {
    can_capture_ = false;
    steps_.clear();
  }

  // The first one runs eagerly: libraries choose and load their kernels, and the cache says whether it has one.
  std::optional<at::Tensor> warm_up(Step& step, int64_t rows) {
    try {
      step.is_warm = true;
      return forward(step).narrow(0, 0, rows);
    } catch (const NotSupportedError& error) {
      log::debug("[engine] decode steps are not captured: ", error.what());
      give_up();
      return std::nullopt;
    }
  }

  // One new token of each sequence, and logits of all.
  static bool is_decode(const StepInputs& inputs) {
    const auto is_one = [](const RaggedBatch::Part& part) { return part.tokens == 1; };
    return !inputs.wants_hidden && inputs.logit_places.size() == inputs.parts.size() &&
           std::all_of(inputs.parts.begin(), inputs.parts.end(), is_one) &&
           std::all_of(inputs.adapters.begin(), inputs.adapters.end(), [](int64_t index) { return index < 0; });
  }

  void prepare(Step& step, int64_t rows, int64_t pages) const {
    const auto longs = at::TensorOptions(at::kLong).device(cache_->metadata().device);
    step.longs = at::zeros({3, rows}, longs);
    step.ints = at::zeros({rows * (1 + pages)}, longs.dtype(at::kInt));
    step.batch = std::make_shared<DecodeBatch>();
    step.batch->slots = step.longs[2];
    step.batch->lengths = step.ints.narrow(0, 0, rows);
    step.batch->table = step.ints.narrow(0, rows, rows * pages).view({rows, pages});
    step.batch->max_length = pages * cache_->metadata().page_size;
  }

  // The host's copies are new each time: the device may not have read those of the step before.
  void fill(Step& step, const StepInputs& inputs) const {
    const int64_t rows = step.longs.size(1), pages = step.batch->table.size(1), size = cache_->metadata().page_size;
    const auto on_host = at::TensorOptions(at::kLong).pinned_memory(true);
    const at::Tensor longs = at::zeros({3, rows}, on_host);
    const at::Tensor ints = at::zeros({rows * (1 + pages)}, on_host.dtype(at::kInt));
    auto* ids = longs.mutable_data_ptr<int64_t>();
    int64_t *const positions = ids + rows, *const slots = positions + rows;
    auto* lengths = ints.mutable_data_ptr<int32_t>();
    int32_t* const table = lengths + rows;
    std::fill_n(slots, rows, -1);  // rows beyond the batch store nothing and see nothing
    for (std::size_t i = 0; i < inputs.parts.size(); ++i) {
      const RaggedBatch::Part& part = inputs.parts[i];
      ids[i] = inputs.tokens[i];
      positions[i] = part.before;
      slots[i] = part.pages[static_cast<std::size_t>(part.before / size)] * size + part.before % size;
      lengths[i] = static_cast<int32_t>(part.before + 1);
      std::copy(part.pages.begin(), part.pages.end(), table + static_cast<int64_t>(i) * pages);
    }
    step.longs.copy_(longs, /*non_blocking=*/true);
    step.ints.copy_(ints, /*non_blocking=*/true);
    inputs.put_chosen(step.longs[0]);
  }

  at::Tensor forward(const Step& step) const {
    ModelInputs inputs;
    inputs.input_ids = step.longs[0].unsqueeze(0);
    inputs.position_ids = step.longs[1].unsqueeze(0);
    inputs.past_key_values = cache_;
    inputs.cache_metadata = step.batch;
    return (*model_)(inputs).logits.squeeze(0);
  }

  std::shared_ptr<const BaseModule> model_;
  std::shared_ptr<RaggedPagesCache> cache_;
  int64_t max_batch_;
  bool can_capture_ = true;
  std::optional<at::cuda::MempoolId_t> pool_;
  std::map<std::pair<int64_t, int64_t>, Step> steps_;  // by rows and pages
};

}  // namespace

std::unique_ptr<DecodeGraphs> DecodeGraphs::make(std::shared_ptr<const BaseModule> model,
                                                 std::shared_ptr<RaggedPagesCache> cache, int64_t max_batch) {
  const bool can_capture =
      cache->uses_device_kernels() && !model->parallel() && !operations::rope_depends_on_length(model->config().rope);
  if (!can_capture) return nullptr;
  return std::make_unique<CudaDecodeGraphs>(std::move(model), std::move(cache), max_batch);
}

#else

std::unique_ptr<DecodeGraphs> DecodeGraphs::make(std::shared_ptr<const BaseModule>, std::shared_ptr<RaggedPagesCache>,
                                                 int64_t) {
  return nullptr;
}

#endif

}  // namespace easydel::serve

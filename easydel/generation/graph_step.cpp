#include "easydel/generation/graph_step.h"

#include <ATen/ATen.h>

#include "easydel/core/build_info.h"
#include "easydel/core/error.h"
#include "easydel/core/log.h"
#include "easydel/operations/rope.h"

#if EASYDEL_HAS_CUDA
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#endif

namespace easydel {

#if EASYDEL_HAS_CUDA
namespace {

constexpr int64_t kMinKeys = 256;

// The keys that a graph looks at: some more than there are, so that a new capture is rare.
int64_t keys_for(int64_t length, int64_t most) {
  const int64_t grain = std::max(kMinKeys, length / 4 / kMinKeys * kMinKeys);
  return std::min(most, (length + grain) / grain * grain);
}

class GraphStep final : public ForwardStep {
 public:
  using ForwardStep::ForwardStep;

  at::Tensor next(const at::Tensor& tokens) override {
    TransformerCache& cache = *std::static_pointer_cast<TransformerCache>(inputs_.past_key_values);
    if (inputs_.attention_mask.defined()) return ForwardStep::next(tokens);  // a mask with holes
    if (!ids_.defined()) start(tokens);
    ids_.copy_(tokens.unsqueeze(1));
    if (cache.length() >= keys_) {  // the first step with this many keys runs eagerly, as a warm-up
      graph_.reset();
      keys_ = keys_for(cache.length(), cache.max_length());
      cache.begin_static(keys_);
      return step();
    }
    if (!graph_ && can_capture_ && !capture(cache)) can_capture_ = false;
    if (!can_capture_) return step();
    graph_->replay();
    cache.count_tokens(1);
    return logits_.clone();  // the next replay writes over them
  }

  void reorder(const at::Tensor& rows) override {
    ForwardStep::reorder(rows);
    if (ids_.defined()) inputs_.input_ids = ids_, inputs_.position_ids = positions_;
    if (ids_.defined() && positions_.defined()) positions_.copy_(positions_.index_select(0, rows));
  }

 private:
  void start(const at::Tensor& tokens) {
    update_inputs_for_generation(output_, inputs_, tokens.unsqueeze(1));
    ids_ = inputs_.input_ids.clone();
    const auto& cache = *inputs_.past_key_values;
    positions_ = inputs_.position_ids.defined() ? inputs_.position_ids.clone()
                                                : cache.positions(ids_.size(0), 1, nullptr, ids_.device()).contiguous();
    inputs_.input_ids = ids_;
    inputs_.position_ids = positions_;
  }

  at::Tensor step() {
    const at::Tensor logits = run();
    positions_.add_(1);
    return logits;
  }

  // A model that cannot be captured runs without a graph.
  bool capture(TransformerCache& cache) {
    const int64_t length = cache.length();
    graph_ = capture_graph([&] { logits_ = step(); }, "[generate] the step");
    cache.count_tokens(length - cache.length());  // a capture computes nothing
    return graph_ != nullptr;
  }

  at::Tensor ids_, positions_, logits_;  // at these addresses in the graph
  int64_t keys_ = 0;
  bool can_capture_ = true;
  std::unique_ptr<at::cuda::CUDAGraph> graph_;
};

}  // namespace

std::unique_ptr<at::cuda::CUDAGraph> capture_graph(const std::function<void()>& launch, const char* what,
                                                   c10::MempoolId_t pool) {
  auto graph = std::make_unique<at::cuda::CUDAGraph>();
  const c10::cuda::CUDAStream current = c10::cuda::getCurrentCUDAStream();
  const c10::cuda::CUDAStreamGuard guard(c10::cuda::getStreamFromPool(false, current.device_index()));
  current.synchronize();
  bool captured = true;
  const auto attempt = [&](const auto& act) {
    try {
      act();
    } catch (const std::exception& error) {
      log::debug(what, " cannot be captured: ", error.what());
      captured = false;
    }
  };
  graph->capture_begin(pool, cudaStreamCaptureModeThreadLocal);  // other threads may use the device meanwhile
  attempt(launch);
  attempt([&] { graph->capture_end(); });
  return captured ? std::move(graph) : nullptr;
}

bool can_capture(const BaseModule& module, const ModelInputs& inputs) {
  return inputs.input_ids.is_cuda() && !module.parallel() && !inputs.token_type_ids.defined() &&
         !operations::rope_depends_on_length(module.config().rope) &&
         !module.config().quantization.kv_cache.is_object();
}

std::unique_ptr<DecodeStep> make_graph_step(const BaseModule& module, ModelInputs inputs) {
  return std::make_unique<GraphStep>(module, std::move(inputs));
}

#else

bool can_capture(const BaseModule&, const ModelInputs&) { return false; }
std::unique_ptr<DecodeStep> make_graph_step(const BaseModule&, ModelInputs) {
  fail<NotSupportedError>("[generate] this build has no CUDA, which is needed to capture a step.");
}

#endif

}  // namespace easydel

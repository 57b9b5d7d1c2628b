#include "easydel/trainers/logs/memory_estimate.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdio>

#include "easydel/core/error.h"
#include "easydel/layers/attention/attention.h"
#include "easydel/layers/forward_context.h"
#include "easydel/layers/mlp.h"
#include "easydel/layers/moe/moe.h"
#include "easydel/operations/checkpoint.h"
#include "easydel/optim/state.h"

namespace easydel {
namespace {

// Elements that a token leaves behind for backward, and the weights that it goes through.
struct Saved {
  int64_t all = 0;      // results of maps, and what they read
  int64_t kept = 0;     // of it what the checkpointing policy keeps
  int64_t weights = 0;  // elements of the maps
  int64_t widest = 0;   // input of a map

  Saved& operator+=(const Saved& other) {
    all += other.all;
    kept += other.kept;
    weights += other.weights;
    widest = std::max(widest, other.widest);
    return *this;
  }
};

class Walk {
 public:
  Walk(const operations::CheckpointPolicy& policy, int64_t width, at::Device device)
      : policy_(policy), width_(width), device_(device) {}

  Saved of(const Module& module) const {
    if (const auto* linear = dynamic_cast<const Linear*>(&module)) return of_linear(*linear, true);
    Saved saved;
    if (dynamic_cast<const Attention*>(&module) || dynamic_cast<const MLP*>(&module)) return of_shared(module);
    if (dynamic_cast<const SparseMoE*>(&module)) saved += of_experts(module);
    for (const auto& [name, child] : module.children()) saved += of(*child);
    return saved;
  }

 private:
  Saved of_linear(const Linear& linear, bool reads_alone) const {
    const int64_t in = linear.in_features(), out = linear.out_features();
    const bool keeps = policy_.recomputes() && policy_.keeps(linear.options().name);
    return {.all = out + (reads_alone ? in : 0), .kept = keeps ? out : 0, .weights = in * out, .widest = in};
  }

  // Queries, keys and values read the same, as gate and up do; the last map reads what is made of them.
  Saved of_shared(const Module& module) const {
    Saved saved;
    std::vector<const Linear*> linears;
    for (const auto& [name, child] : module.children()) {
      if (const auto* linear = dynamic_cast<const Linear*>(child.get())) linears.push_back(linear);
    }
    const auto* mlp = dynamic_cast<const MLP*>(&module);
    const bool last_reads_kept = !mlp || mlp->keeps_inner(device_);
    for (std::size_t i = 0; i < linears.size(); ++i)
      saved += of_linear(*linears[i], i == 0 || (i + 1 == linears.size() && last_reads_kept));
    // What the last map of an attention reads is a dot, too.
    if (dynamic_cast<const Attention*>(&module) && !linears.empty() && policy_.recomputes() &&
        policy_.keeps("attn_output"))
      saved.kept += linears.back()->in_features();
    return saved;
  }

  // For each expert of a token: what it reads, gate, up, their product, and its result.
  Saved of_experts(const Module& module) const {
    Saved saved;
    for (const auto& [name, child] : module.children()) {
      const auto* experts = dynamic_cast<const Experts*>(child.get());
      if (!experts || !experts->stacks()[1].dense || width_ == 0) continue;
      for (const auto& stack : experts->stacks()) saved.weights += c10::multiply_integers(stack.dense->shape);
      const std::vector<int64_t>& down = experts->stacks()[1].dense->shape;
      const int64_t inner = c10::multiply_integers(down) / (down[0] * width_);
      // Two operations for each weight of three matrices.
      const auto all_inner = static_cast<int64_t>(module.own_flops_per_token(0)) / (6 * width_);
      saved.all += 3 * all_inner + 2 * width_ * all_inner / std::max<int64_t>(1, inner);
    }
    return saved;
  }

  const operations::CheckpointPolicy& policy_;
  int64_t width_;
  at::Device device_;
};

void find_layers(const Module& module, std::vector<const Module*>& layers) {
  if (dynamic_cast<const DecoderLayer*>(&module)) return layers.push_back(&module);
  for (const auto& [name, child] : module.children()) find_layers(*child, layers);
}

// As linear_cross_entropy chooses. On a GPU the gradients of two chunks of logits are held at once.
int64_t logit_rows(const MemoryEstimateOptions& options, int64_t vocabulary, bool on_cpu) {
  if (options.chunk_size > 0) return std::min(options.chunk_size, options.tokens);
  const int64_t elements = int64_t{1} << (on_cpu ? 22 : 27);
  return std::min(options.tokens, std::max<int64_t>(on_cpu ? 128 : 1024, elements / vocabulary));
}

std::string in_units(int64_t bytes, int64_t unit) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", static_cast<double>(bytes) / static_cast<double>(unit));
  return text;
}

}  // namespace

int64_t bytes_of_gib(double gib) { return static_cast<int64_t>(gib * (int64_t{1} << 30)); }

int64_t MemoryEstimate::peak() const {
  const int64_t held = weights + optimizer;
  return std::max(held + gradients, held + activations + temporary + (accumulates ? gradients : 0));
}

std::string MemoryEstimate::to_string() const {
  const bool is_small = peak() < int64_t{1} << 30;
  const auto size = [unit = int64_t{1} << (is_small ? 20 : 30)](int64_t bytes) { return in_units(bytes, unit); };
  return concat(size(peak()), is_small ? " MiB: " : " GiB: ", size(weights), " weights, ", size(gradients),
                " gradients, ", size(optimizer), " optimizer, ", size(activations), " activations, ", size(temporary),
                " temporary");
}

MemoryEstimate estimate_memory(const BaseModule& model, const MemoryEstimateOptions& options) {
  MemoryEstimate estimate{.weights = options.other_weights, .accumulates = options.accumulates};
  const BaseConfig& config = model.config();
  const DType param_dtype = model.options().param_dtype;
  TensorMap trained;
  for (const auto& [path, parameter] : model.named_parameters()) {
    const DType dtype = parameter->dtype_in(param_dtype);
    const int64_t numel = c10::multiply_integers(parameter->stored_shape());
    const int64_t bytes = numel * static_cast<int64_t>(c10::elementSize(dtype));
    estimate.weights += bytes;
    if (!parameter->trainable || !at::isFloatingType(dtype)) continue;
    estimate.gradients += bytes;
    trained.set(path, at::empty(parameter->stored_shape(), at::TensorOptions(dtype).device(at::kMeta)));
  }
  if (options.tx) estimate.optimizer = options.tx->init(trained).nbytes();

  const operations::CheckpointPolicy policy(config.memory.gradient_checkpointing,
                                            config.memory.gradient_checkpointing_targets);
  const Walk walk(policy, config.hidden_size, model.options().device);
  std::vector<const Module*> layers;
  find_layers(model, layers);
  Saved sum, largest;
  for (const Module* layer : layers) {
    const Saved saved = walk.of(*layer);
    sum += saved;
    if (saved.all > largest.all) largest = saved;
  }
  const auto size = static_cast<int64_t>(c10::elementSize(model.dtype()));
  const int64_t count = static_cast<int64_t>(layers.size()), width = config.hidden_size;
  const int64_t each = policy.recomputes() ? count * width + sum.kept + largest.all : sum.all;
  estimate.activations = options.tokens * each * size;
  // Weights of another dtype are cast, and the copies stay until backward.
  if (param_dtype != model.dtype()) estimate.activations += (policy.recomputes() ? largest : sum).weights * size;

  // In backward of an MLP: the gradients of gate, up, their product, of what it reads and what it returns.
  estimate.temporary = options.tokens * (3 * largest.widest + 2 * width) * size;
  if (model.model_task() != TaskType::CausalLM || config.vocab_size <= 0) return estimate;
  const int64_t head = config.vocab_size * width;
  const bool on_cpu = model.options().device.is_cpu();
  const int64_t logits = logit_rows(options, config.vocab_size, on_cpu) * config.vocab_size;
  const int64_t loss =
      logits * (4 + (size < 4 ? (on_cpu ? size : 2 * size) : 0)) + head * 4 + 2 * options.tokens * width * size;
  const auto param_size = static_cast<int64_t>(c10::elementSize(param_dtype));
  estimate.temporary = std::max(estimate.temporary + head * param_size, loss);
  return estimate;
}

}  // namespace easydel

#include "easydel/trainers/logs/training_flops.h"

#include <algorithm>

#include "easydel/layers/attention/attention.h"
#include "easydel/layers/attention/latent_attention.h"
#include "easydel/layers/mlp.h"
#include "easydel/layers/moe/moe.h"
#include "easydel/lora/lora.h"
#include "easydel/lora/lora_layer.h"

namespace easydel {
namespace {

bool trains(const std::shared_ptr<Parameter>& parameter) { return parameter && parameter->trainable; }

// Anything in the tree.
bool trains(const Module& module) {
  const auto parameters = module.named_parameters();
  return std::any_of(parameters.begin(), parameters.end(), [](const auto& p) { return trains(p.parameter); });
}

bool trains(const Module* module) { return module && trains(*module); }

std::vector<const Linear*> linears_of(const Module& module) {
  std::vector<const Linear*> found;
  for (const auto& [name, child] : module.children()) {
    if (const auto* linear = dynamic_cast<const Linear*>(child.get())) found.push_back(linear);
  }
  return found;
}

// The adapters of a layer that are active.
std::vector<LoraWeights> adapters_of(const LoraLayer& layer, const std::vector<std::string>& active) {
  std::vector<LoraWeights> found;
  for (const std::string& name : active) {
    if (LoraWeights weights = find_weights(layer, name); weights.a) found.push_back(std::move(weights));
  }
  return found;
}

}  // namespace

// Goes through the tree in the order of forward. `flows` says whether a gradient flows into what a module reads.
class TrainingFlops::Counter {
 public:
  Counter(TrainingFlops& flops, const BaseModule& model, bool has_backward, bool with_adapters)
      : flops_(flops), has_backward_(has_backward) {
    if (!with_adapters) return;
    for (const auto& [name, weight] : active_adapters(model)) active_.push_back(name);
  }

  // Whether a gradient flows into what comes after it.
  bool walk(const Module& module, bool flows) {
    if (const auto* linear = dynamic_cast<const Linear*>(&module)) {
      flops_.per_token_ += of_linear(*linear, flows);
    } else if (const auto* table = dynamic_cast<const Embedding*>(&module)) {
      flops_.per_token_ += of_table(*table);
    } else if (dynamic_cast<const Attention*>(&module)) {
      add_attention(module, flows);
    } else if (dynamic_cast<const LatentAttention*>(&module)) {
      add_latent_attention(module, flows);
    } else if (dynamic_cast<const MLP*>(&module)) {
      add_mlp(module, flows);
    } else if (dynamic_cast<const SparseMoE*>(&module)) {
      add_experts(module, flows);
    } else if (dynamic_cast<const DecoderLayer*>(&module)) {
      add_layer(module, flows);
    } else {
      return walk_children(module, flows);
    }
    return flows || trains(module);
  }

  // A classifier's head sees one token of a document.
  void add_classifier(const Linear& head, bool flows) { flops_.per_document_ += of_linear(head, flows); }

 private:
  double of_product(double size, bool needs_input, bool needs_weight) const {
    return size * (1 + (has_backward_ && needs_input ? 1 : 0) + (has_backward_ && needs_weight ? 1 : 0));
  }

  double of_adapter(const LoraWeights& weights, double in, bool flows) const {
    const auto rank = static_cast<double>(weights.a->shape[0]), out = static_cast<double>(weights.b->shape[0]);
    return of_product(2 * rank * in, flows, trains(weights.a)) +
           of_product(2 * rank * out, flows || trains(weights.a), trains(weights.b));
  }

  double of_linear(const Linear& linear, bool flows) const {
    double sum = of_product(linear.own_flops_per_token(0), flows, trains(linear.weight()));
    const LoraLayer layer{.linear = &linear};
    for (const LoraWeights& weights : adapters_of(layer, active_))
      sum += of_adapter(weights, static_cast<double>(linear.in_features()), flows);
    return sum;
  }

  double of_table(const Embedding& table) const {
    double sum = 0;
    const LoraLayer layer{.table = &table};
    for (const LoraWeights& weights : adapters_of(layer, active_)) sum += of_adapter(weights, 0, false);
    return sum;
  }

  void add_linears(const std::vector<const Linear*>& linears, bool flows) {
    for (const Linear* linear : linears) flops_.per_token_ += of_linear(*linear, flows);
  }

  // q k^T and p v; in backward, half a forward for each of dq, dk, dv and dp.
  void add_scores(const Module& module, bool q, bool k, bool v) {
    double passes = 1;
    if (has_backward_) {
      for (const bool needed : {q, k, v, q || k}) passes += needed ? 0.5 : 0;
    }
    flops_.scores_.push_back({&module, passes});
  }

  void add_attention(const Module& module, bool flows) {
    std::vector<const Linear*> linears = linears_of(module);  // q, k and v, or one for all; and the output's
    const Linear* out = linears.back();
    linears.pop_back();
    add_linears(linears, flows);
    const bool q = flows || trains(*linears.front()) || trains(module.child("q_norm"));
    const bool k = flows || trains(*linears[linears.size() / 3]) || trains(module.child("k_norm"));
    const bool v = flows || trains(*linears.back());
    add_scores(module, q, k, v);
    add_linears({out}, q || k || v || trains(module));
  }

  void add_latent_attention(const Module& module, bool flows) {
    const auto linear = [&](const char* name) { return dynamic_cast<const Linear*>(module.child(name)); };
    bool q = flows;
    if (const Linear* first = linear("q_a_proj")) {
      add_linears({first}, flows);
      q = q || trains(*first) || trains(module.child("q_a_layernorm"));
    }
    const Linear* second = linear("q_a_proj") ? linear("q_b_proj") : linear("q_proj");
    add_linears({second}, q);
    q = q || trains(*second);
    const Linear *latent = linear("kv_a_proj_with_mqa"), *heads = linear("kv_b_proj");
    add_linears({latent}, flows);
    const bool read = flows || trains(*latent) || trains(module.child("kv_a_layernorm"));
    add_linears({heads}, read);
    const bool kv = read || trains(*heads);
    add_scores(module, q, kv, kv);
    add_linears({linear("o_proj")}, q || kv);
  }

  void add_mlp(const Module& module, bool flows) {
    std::vector<const Linear*> linears = linears_of(module);
    const Linear* down = linears.back();
    linears.pop_back();
    add_linears(linears, flows);
    for (const Linear* linear : linears) flows = flows || trains(*linear);
    add_linears({down}, flows);
  }

  void add_experts(const Module& module, bool flows) {
    for (const auto& [name, child] : module.children()) {
      const auto* experts = dynamic_cast<const Experts*>(child.get());
      if (!experts) {
        walk(*child, flows);  // the router, and what every token goes through
        continue;
      }
      const double third = module.own_flops_per_token(0) / 3;
      const bool gate_up = trains(experts->stacks()[0].dense), down = trains(experts->stacks()[1].dense);
      flops_.per_token_ += of_product(2 * third, flows, gate_up) + of_product(third, flows || gate_up, down);
    }
  }

  // Its norms are declared last and read first.
  void add_layer(const Module& layer, bool flows) {
    for (const auto& [name, child] : layer.children()) flows = flows || (linears_of(*child).empty() && trains(*child));
    walk_children(layer, flows);
  }

  bool walk_children(const Module& module, bool flows) {
    if (module.own_flops_per_token(1) > 0) add_scores(module, flows, flows, flows);  // of a custom layer
    for (const auto& [name, child] : module.children()) flows = walk(*child, flows);
    return flows || trains(module);
  }

  TrainingFlops& flops_;
  bool has_backward_;
  std::vector<std::string> active_;
};

TrainingFlops::TrainingFlops(const BaseModule& model, bool has_backward, bool with_adapters) {
  Counter counter(*this, model, has_backward, with_adapters);
  const bool classifies = model.model_task() == TaskType::SequenceClassification;
  bool flows = false;
  for (const auto& [name, child] : model.children()) {
    const auto* head = dynamic_cast<const Linear*>(child.get());
    if (classifies && head) {
      counter.add_classifier(*head, flows);
    } else {
      flows = counter.walk(*child, flows);
    }
  }
}

double TrainingFlops::of_document(int64_t tokens) const {
  const auto [found, fresh] = known_.try_emplace(tokens, 0.0);
  if (!fresh) return found->second;
  const auto length = static_cast<double>(tokens);
  double each = per_token_;
  for (const auto& [module, passes] : scores_) each += passes * module->own_flops_per_token((length + 1) / 2);
  return found->second = each * length + per_document_;
}

double TrainingFlops::of_rows(const std::vector<BatchRow>& rows) const {
  double sum = 0;
  for (const BatchRow& row : rows) {
    const std::size_t size = row.input_ids.size();
    for (std::size_t begin = 0, end = 0; begin < size; begin = end) {
      end = row.segment_ids.empty() ? size : begin + 1;
      while (end < size && row.segment_ids[end] == row.segment_ids[begin]) ++end;
      sum += of_document(static_cast<int64_t>(end - begin));
    }
  }
  return sum;
}

}  // namespace easydel

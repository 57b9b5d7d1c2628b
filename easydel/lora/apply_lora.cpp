#include <algorithm>

#include "easydel/core/error.h"
#include "easydel/core/log.h"
#include "easydel/lora/lora.h"
#include "easydel/lora/lora_setup.h"
#include "easydel/lora/merge.h"

namespace easydel {
namespace {

constexpr const char* kWhere = "apply_lora_to_layers";

// The maps that the pattern finds. A head that shares the table of the embeddings is left alone: merged into it, the
// adapter would change the embeddings too.
std::vector<LoraTarget> find_targets(const BaseModule& model, const LoraConfig& config, const std::string& pattern,
                                     bool embeddings) {
  std::set<std::string> tied;
  for (const auto& [path, first] : model.tied_parameters()) tied.insert(path);
  std::vector<LoraTarget> targets;
  bool only_tied = false;
  for (const auto& [path, layer] : layers_of(model)) {
    if ((layer.table && !embeddings) || !is_found(path, pattern)) continue;
    require<NotSupportedError>(!layer.table || (!config.use_dora && !config.takes_from_base()), "[", kWhere, "] \"",
                               path, "\" is an embedding table, which does not support DoRA, PiSSA or OLoRA.");
    if (tied.contains(path + ".weight")) {
      only_tied = true;
      continue;
    }
    const int64_t rank = config.rank_of(path);
    targets.push_back({path, rank, config.scaling_of(path, rank), layer.table != nullptr});
  }
  require<ConfigError>(
      !targets.empty(), "[", kWhere, "] lora_pattern \"", pattern, "\" matches no linear layer of ", model.type_name(),
      only_tied ? " but one that is tied to the embeddings" : "", ". Layers have names like \"",
      [&] {
        const auto all = layers_of(model);
        return all.empty() ? std::string() : all.begin()->first;
      }(),
      "\".");
  return targets;
}

}  // namespace

void apply_lora(BaseModule& model, int64_t lora_rank, double lora_alpha, const std::string& lora_pattern,
                const LoraOptions& options) {
  LoraConfig config{.r = lora_rank,
                    .lora_alpha = lora_alpha,
                    .lora_dropout = options.dropout,
                    .use_rslora = options.rslora,
                    .use_dora = options.dora,
                    .init = options.init,
                    .rank_pattern = options.rank_pattern,
                    .alpha_pattern = options.alpha_pattern,
                    .modules_to_save = options.modules_to_save};
  config.validate(kWhere);
  require<ConfigError>(!options.dora || !model.is_lazy(), "[", kWhere,
                       "] DoRA starts from the norms of the weights, and ", model.type_name(),
                       " has no weights yet: load them first.");
  require<ConfigError>(!config.takes_from_base() || !model.is_lazy(), "[", kWhere,
                       "] PiSSA and OLoRA start from the weights, ", "and ", model.type_name(),
                       " has none yet: load them first.");
  LoraSetup setup = with_new_adapter(model, options.adapter_name, kWhere);
  LoraAdapter adapter{options.adapter_name, config, find_targets(model, config, lora_pattern, options.embeddings),
                      adapter_dtype(model)};
  if (options.verbose)
    log::info("[lora] ", adapter.targets.size(), " layers have the adapter \"", adapter.name, "\", of rank ",
              lora_rank);
  setup.active = {{adapter.name, 1.0}};
  setup.adapters.push_back(std::move(adapter));
  change_setup(model, std::move(setup), options.rngs.value_or(model.options().rngs));
}

bool lora_is_enabled(const BaseModule& model) {
  const LoraSetup* setup = find_setup(model);
  return setup && setup->enabled;
}

std::pair<GraphState, GraphState> split_lora_params(const BaseModule& model) {
  const std::set<std::string> own = adapter_paths(get_setup(model, "split_lora_params"));
  std::pair<GraphState, GraphState> parts;
  for (const auto& [path, parameter] : model.named_parameters())
    (own.contains(path) ? parts.second : parts.first).set(path, parameter->value());
  return parts;
}

void merge_lora_params(BaseModule& model) { merge_adapters(model, /*keep_originals=*/true); }

void merge_lora_params(BaseModule& model, const GraphState& lora_params) {
  const std::set<std::string> own = adapter_paths(get_setup(model, "merge_lora_params"));
  for (const auto& [path, tensor] : lora_params)
    require<ConfigError>(own.contains(path), "[merge_lora_params] \"", path, "\" is not a parameter of an adapter.");
  require<ConfigError>(!lora_is_merged(model),
                       "[merge_lora_params] the adapters are merged into the weights: unmerge_lora_params() first.");
  merge_params(model, lora_params);
}

void unwrap_lora(BaseModule& model, bool verbose) {
  if (!get_setup(model, "unwrap_lora_to_layers").merged) merge_adapters(model, /*keep_originals=*/false);
  LoraSetup setup = get_setup(model, "unwrap_lora_to_layers");
  if (verbose) {
    std::set<std::string> layers;
    for (const LoraAdapter& adapter : setup.adapters) {
      for (const LoraTarget& target : adapter.targets) layers.insert(target.path);
    }
    log::info("[lora] ", layers.size(), " layers now have their adapters merged");
  }
  setup.adapters.clear();
  setup.active.clear();
  setup.originals.clear();
  change_setup(model, std::move(setup));
}

}  // namespace easydel

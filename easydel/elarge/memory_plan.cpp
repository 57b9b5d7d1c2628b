#include "easydel/elarge/memory_plan.h"

#include <algorithm>
#include <array>

#include "easydel/core/error.h"
#include "easydel/core/log.h"
#include "easydel/core/memory.h"
#include "easydel/core/text/bytes.h"
#include "easydel/infra/config/auto_config.h"
#include "easydel/infra/parallel/shard_model.h"
#include "easydel/infra/registry.h"
#include "easydel/lora/lora.h"
#include "easydel/optim/make_optimizer.h"
#include "easydel/sharding/world/world.h"
#include "easydel/trainers/logs/memory_estimate.h"
#include "easydel/trainers/run/batch.h"

namespace easydel {
namespace {

// The model without its weights, as the trainer will have it.
std::shared_ptr<BaseModule> outline(const ELargeConfig& config, const ModelSection& section, TaskType task,
                                    const Json& changes, bool spread) {
  const auto parsed =
      AutoConfig::for_task(task, section.name_or_path, {.overrides = changes, .hub = {.revision = section.revision()}});
  const auto module = Registry::instance().make_module(*parsed, task);
  const ComputeSettings compute = config.compute();
  module->set_options({.dtype = compute.dtype, .param_dtype = compute.param_dtype, .device = compute.device});
  if (spread) place_parameters(*module, {}, World::current());
  const TrainingArguments arguments = config.training_arguments();
  if (arguments.lora_rank)
    module->apply_lora_to_layers(*arguments.lora_rank, 1.0, arguments.lora_pattern.value_or(".*"), {});
  return module;
}

MemoryEstimate estimate(const ELargeConfig& config, const BaseModule& module) {
  const TrainingArguments a = config.training_arguments();
  const std::string type = config.trainer_type();
  const auto is = [&](auto... names) { return ((type == names) || ...); };
  const bool has_pairs = is("dpo", "cpo", "orpo", "reward") || prefers_own_samples(type);
  const int64_t rows_of_example = has_pairs                       ? 2
                                  : learns_from_rewards(type)     ? a.rollout.num_return_sequences
                                  : distils_what_is_written(type) ? a.written.rollout.num_return_sequences
                                                                  : 1;
  const optim::Optimizer optimizer =
      optim::make_optimizer({.optimizer = a.optimizer, .extra_optimizer_kwargs = a.extra_optimizer_kwargs});
  return estimate_memory(
      module,
      {.tokens = own_rows(a.minibatch_size(), module.parallel().get()).count * rows_of_example * a.row_length(type),
       .accumulates = a.gradient_accumulation_steps > 1,
       .chunk_size = a.lmhead_chunksize.value_or(module.config().memory.lmhead_chunksize.value_or(0)),
       .tx = a.offload_optimizer ? nullptr : optimizer.tx});
}

// Of this rank.
std::optional<int64_t> memory_limit(const ELargeConfig& config, at::Device device) {
  if (const auto given = config.training_arguments().memory_limit) return bytes_of_gib(*given);
  const auto free = available_memory(device);
  return free && device.is_cpu() ? std::optional(*free / World::current()->size()) : free;
}

std::optional<std::string> plan(const ELargeConfig& config, const ModelSection& section, TaskType task,
                                const Json& changes, bool spread) {
  // The less a policy recomputes, the earlier it stands.
  constexpr std::array kPolicies = {"checkpoint_dots", "mlp_notsaveable", "nothing_saveable"};
  if (config.training_arguments().gradient_checkpointing || changes.contains("gradient_checkpointing"))
    return std::nullopt;
  const auto plain = outline(config, section, task, changes, spread);
  if (!plain->config().memory.gradient_checkpointing.empty()) return std::nullopt;
  const at::Device device = plain->options().device;
  const auto limit = memory_limit(config, device);
  const int64_t needed = estimate(config, *plain).peak();
  const bool exceeds = limit && needed > *limit;
  // All ranks do the same, or their collectives would not match.
  if (max_over_all(exceeds ? 1 : 0, plain->parallel().get(), device) == 0) return std::nullopt;
  const auto needed_with = [&](const char* policy) {
    Json with_policy = changes;
    with_policy["gradient_checkpointing"] = policy;
    return estimate(config, *outline(config, section, task, with_policy, spread)).peak();
  };
  std::size_t choice = 0;
  int64_t rest = needed_with(kPolicies[0]);
  while (choice + 1 < kPolicies.size() && limit && rest > *limit) rest = needed_with(kPolicies[++choice]);
  choice = static_cast<std::size_t>(max_over_all(static_cast<double>(choice), plain->parallel().get(), device));
  const char* const policy = kPolicies[choice];
  rest = needed_with(policy);
  if (rest >= needed) return std::nullopt;
  if (World::current()->rank() == 0)
    log::info("[elarge] the run needs about ", format_bytes(needed), " and has ", format_bytes(limit.value_or(0)),
              ": gradient_checkpointing is ", policy, ", which needs about ", format_bytes(rest),
              ". Set gradient_checkpointing to decide otherwise; \"none\" keeps everything.");
  return policy;
}

}  // namespace

std::optional<std::string> checkpointing_by_memory(const ELargeConfig& config, const ModelSection& section,
                                                   TaskType task, const Json& changes, bool spread) {
  try {
    return plan(config, section, task, changes, spread);
  } catch (const Error&) {
    return std::nullopt;  // whatever is wrong with the settings is said where they are used
  }
}

}  // namespace easydel

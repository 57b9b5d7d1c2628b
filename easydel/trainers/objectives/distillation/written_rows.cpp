#include "easydel/trainers/objectives/distillation/written_rows.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>

#include "easydel/data/rows/example.h"
#include "easydel/sharding/parallel.h"
#include "easydel/trainers/rollouts/prompt_deal.h"

namespace easydel {

void add_written_rows(GeneratedRows& out, const RolloutFunction& rollouts, int64_t group,
                      const std::vector<std::vector<data::Example>>& batches, const RandomKey& key,
                      const BaseModule& model, const GenerationContext& context) {
  const Parallel* parallel = model.parallel().get();
  const PromptDeal deal(batches, context, parallel);
  std::vector<std::vector<int64_t>> prompts;
  for (Prompt& prompt : gather_prompts(batches, deal, parallel, context.batch.device))
    prompts.push_back(std::move(prompt.ids));
  const auto begin = std::chrono::steady_clock::now();
  const RolloutResult rolled = rollouts(prompts, group, key, nullptr);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();

  double tokens = 0, truncated = 0, count = 0;
  for (const auto& completions : rolled.completions) {
    for (const Completion& each : completions) {
      tokens += static_cast<double>(each.ids.size());
      truncated += each.is_truncated ? 1 : 0;
      ++count;
    }
  }
  out.metrics["completions/mean_length"] = tokens / count;
  out.metrics["completions/clipped_ratio"] = truncated / count;
  out.metrics["rollout_seconds"] = seconds;
  out.metrics["rollout_tokens_per_second"] = tokens / std::max(seconds, 1e-9);

  std::vector<BatchRow>& rows = out.steps.emplace_back();
  for (int64_t i = 0; i < static_cast<int64_t>(batches.front().size()); ++i) {
    const std::size_t at = deal.place(0, i);
    for (const Completion& each : rolled.completions[at]) {
      BatchRow row{.input_ids = prompts[at], .labels = std::vector<int64_t>(prompts[at].size(), data::kNoLoss)};
      row.input_ids.insert(row.input_ids.end(), each.ids.begin(), each.ids.end());
      row.labels.insert(row.labels.end(), each.ids.begin(), each.ids.end());
      rows.push_back(std::move(row));
    }
  }
}

}  // namespace easydel

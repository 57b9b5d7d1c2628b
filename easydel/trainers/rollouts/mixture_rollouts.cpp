#include "easydel/trainers/rollouts/mixture_rollouts.h"

#include <ATen/ATen.h>

#include <map>

#include "easydel/generation/generate.h"
#include "easydel/infra/base_module.h"
#include "easydel/tokenizers/auto_tokenizer.h"
#include "easydel/trainers/objectives/reference/reference.h"

namespace easydel {
namespace {

class GeometricMixture final : public LogitsProcessor {
 public:
  GeometricMixture(BaseModule& policy, const BaseModule* reference, double coefficient)
      : policy_(policy), reference_(reference), coefficient_(coefficient) {}

  at::Tensor operator()(const at::Tensor& input_ids_BT, const at::Tensor& scores_BV) override {
    return at::log_softmax((1 - coefficient_) * scores_BV + coefficient_ * logits_of_reference(input_ids_BT), -1);
  }

 private:
  at::Tensor logits_of_reference(const at::Tensor& ids) const {
    std::optional<WithoutAdapters> off;
    if (!reference_) off.emplace(policy_);
    const BaseModule& model = reference_ ? *reference_ : policy_;
    return model({.input_ids = ids}).logits.select(1, -1).to(at::kFloat);
  }

  BaseModule& policy_;
  const BaseModule* reference_;
  double coefficient_;
};

}  // namespace

RolloutFunction make_mixture_rollouts(std::shared_ptr<BaseModule> policy, std::shared_ptr<const BaseModule> reference,
                                      double coefficient, const AutoTokenizer& tokenizer,
                                      const RolloutArguments& arguments) {
  return [policy = std::move(policy), reference = std::move(reference), coefficient, tokenizer = tokenizer.shared(),
          arguments](const std::vector<std::vector<int64_t>>& prompts, int64_t group, const RandomKey& key,
                     CompletionSink* sink) {
    RolloutResult result;
    result.completions.resize(prompts.size());
    // Without padding, which positions would have to know of: prompts of one length at a time.
    std::map<std::size_t, std::vector<std::size_t>> by_length;
    for (std::size_t i = 0; i < prompts.size(); ++i) by_length[prompts[i].size()].push_back(i);
    for (const auto& [length, places] : by_length) {
      if (sink) sink->check();
      std::vector<int64_t> ids;
      GenerateOptions options;
      for (const std::size_t place : places) {
        ids.insert(ids.end(), prompts[place].begin(), prompts[place].end());
        options.streams.push_back(static_cast<int64_t>(place));
      }
      GenerationConfig& config = options.generation_config;
      config.do_sample = true;
      config.temperature = arguments.temperature;
      config.top_p = arguments.top_p;
      config.top_k = arguments.top_k.value_or(0);
      if (arguments.min_p) config.min_p = *arguments.min_p;
      config.repetition_penalty = arguments.repetition_penalty;
      config.max_new_tokens = arguments.max_completion_length;
      config.num_return_sequences = group;
      options.prng_key = key;
      options.logits_processor.add<GeometricMixture>(*policy, reference.get(), coefficient);
      const auto rows = static_cast<int64_t>(places.size()), columns = static_cast<int64_t>(length);
      const at::Tensor input = at::tensor(ids, at::kLong).view({rows, columns}).to(policy->options().device);
      const GenerateOutput written = policy->generate(input, options);
      const at::Tensor sequences = written.sequences.to(at::kCPU).contiguous();
      for (int64_t r = 0; r < rows * group; ++r) {
        const int64_t* first = sequences.const_data_ptr<int64_t>() + r * sequences.size(1) + columns;
        Completion completion;
        completion.ids.assign(first, first + written.lengths[static_cast<std::size_t>(r)]);
        completion.is_truncated = written.finish_reasons[static_cast<std::size_t>(r)] == FinishReason::Length;
        completion.text = tokenizer->decode(std::vector<int32_t>(completion.ids.begin(), completion.ids.end()));
        result.completions[places[static_cast<std::size_t>(r / group)]].push_back(std::move(completion));
      }
      result.prefilled_tokens += rows * columns;
      result.prompt_tokens += rows * group * columns;
    }
    return result;
  };
}

}  // namespace easydel

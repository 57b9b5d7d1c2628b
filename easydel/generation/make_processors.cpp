// From a GenerationConfig to its processors.
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <typeinfo>

#include "easydel/core/error.h"
#include "easydel/generation/penalty_processors.h"
#include "easydel/generation/sampling_processors.h"
#include "easydel/generation/token_processors.h"
#include "easydel/infra/config/config_io.h"

namespace easydel {
namespace {

void require_in_vocabulary(const std::vector<int64_t>& ids, std::string_view key, int64_t vocab_size) {
  for (const int64_t id : ids) {
    require<ConfigError>(id < vocab_size, "[GenerationConfig] ", key, " must lie below the vocabulary's size of ",
                         vocab_size, "; got ", id, ".");
  }
}

// Custom ones stand in for those of the same class and follow the rest.
LogitsProcessorList merged(const LogitsProcessorList& ours, const LogitsProcessorList& custom) {
  LogitsProcessorList list;
  const auto contains = [&](const LogitsProcessorPtr& processor) {
    return std::find(list.begin(), list.end(), processor) != list.end();
  };
  for (const LogitsProcessorPtr& processor : ours) {
    const LogitsProcessor& mine = *processor;
    const auto same = std::find_if(custom.begin(), custom.end(), [&](const LogitsProcessorPtr& p) {
      const LogitsProcessor& theirs = *p;
      return typeid(theirs) == typeid(mine);
    });
    list.append(same == custom.end() ? processor : *same);
  }
  for (const LogitsProcessorPtr& processor : custom) {
    if (!contains(processor)) list.append(processor);
  }
  return list;
}

}  // namespace

at::Tensor LogitsProcessorList::operator()(const at::Tensor& input_ids_BT, const at::Tensor& scores_BV) {
  at::Tensor scores = scores_BV;
  for (const LogitsProcessorPtr& processor : processors_) {
    scores = (*processor)(input_ids_BT, scores);
    if (scores.sizes() == scores_BV.sizes()) continue;
    const LogitsProcessor& at_fault = *processor;
    fail<ShapeError>("[generate] ", short_type_name(typeid(at_fault)), " must return scores of ", scores_BV.sizes(),
                     "; got ", scores.sizes(), ".");
  }
  return scores;
}

LogitsProcessorList make_score_processors(const GenerationConfig& c, int64_t prompt_length, int64_t vocab_size,
                                          const LogitsProcessorList& custom, const at::Tensor& prompt) {
  const TokenIds& eos = c.eos_token_id;
  LogitsProcessorList list;
  if (c.sequence_bias) list.add<SequenceBiasLogitsProcessor>(*c.sequence_bias, vocab_size);
  const auto require_prompt = [&](std::string_view key) {
    require<ConfigError>(prompt.defined(), "[GenerationConfig] ", key, " needs the prompt's ids; there are none here.");
  };
  if (*c.encoder_repetition_penalty != 1.0) {
    require_prompt("encoder_repetition_penalty");
    list.add<EncoderRepetitionPenaltyLogitsProcessor>(*c.encoder_repetition_penalty, prompt);
  }
  if (*c.repetition_penalty != 1.0) list.add<RepetitionPenaltyLogitsProcessor>(*c.repetition_penalty);
  if (*c.presence_penalty != 0.0 || *c.frequency_penalty != 0.0) {
    list.add<FrequencyPenaltyLogitsProcessor>(*c.presence_penalty, *c.frequency_penalty, prompt_length);
  }
  if (*c.no_repeat_ngram_size > 0) list.add<NoRepeatNGramLogitsProcessor>(*c.no_repeat_ngram_size);
  if (*c.encoder_no_repeat_ngram_size > 0) {
    require_prompt("encoder_no_repeat_ngram_size");
    list.add<EncoderNoRepeatNGramLogitsProcessor>(*c.encoder_no_repeat_ngram_size, prompt);
  }
  if (c.bad_words_ids) list.add<NoBadWordsLogitsProcessor>(*c.bad_words_ids, eos, vocab_size);
  if (*c.min_length > 0 && !eos.empty()) list.add<MinLengthLogitsProcessor>(*c.min_length, eos, vocab_size);
  if (c.min_new_tokens.value_or(0) > 0 && !eos.empty()) {
    list.add<MinNewTokensLengthLogitsProcessor>(prompt_length, *c.min_new_tokens, eos, vocab_size);
  }
  if (c.forced_bos_token_id) {
    require_in_vocabulary({*c.forced_bos_token_id}, "forced_bos_token_id", vocab_size);
    list.add<ForcedBOSTokenLogitsProcessor>(*c.forced_bos_token_id);
  }
  if (!c.forced_eos_token_id.empty()) {
    require_in_vocabulary(c.forced_eos_token_id.values(), "forced_eos_token_id", vocab_size);
    list.add<ForcedEOSTokenLogitsProcessor>(*c.max_length, c.forced_eos_token_id);
  }
  if (*c.remove_invalid_values) list.add<InfNanRemoveLogitsProcessor>();
  if (c.exponential_decay_length_penalty) {
    require<ConfigError>(!eos.empty(),
                         "[GenerationConfig] exponential_decay_length_penalty needs an eos_token_id; there is none.");
    require_in_vocabulary(eos.values(), "eos_token_id", vocab_size);
    list.add<ExponentialDecayLengthPenalty>(*c.exponential_decay_length_penalty, eos, prompt_length);
  }
  if (c.suppress_tokens) list.add<SuppressTokensLogitsProcessor>(*c.suppress_tokens, vocab_size);
  if (c.begin_suppress_tokens) {
    const bool after_forced = prompt_length <= 1 && c.forced_bos_token_id;
    list.add<SuppressTokensAtBeginLogitsProcessor>(*c.begin_suppress_tokens, prompt_length + (after_forced ? 1 : 0),
                                                   vocab_size);
  }
  return merged(list, custom);
}

LogitsProcessorList make_warpers(const GenerationConfig& c) {
  LogitsProcessorList list;
  if (c.samples()) {
    // Beams need a token besides the end tokens, so that a row can go on.
    const int64_t keep = c.beams() == 1           ? 1
                         : c.eos_token_id.empty() ? 2
                                                  : static_cast<int64_t>(c.eos_token_id.size()) + 1;
    if (*c.temperature != 1.0) list.add<TemperatureLogitsWarper>(*c.temperature);
    if (c.top_h) list.add<TopHLogitsWarper>(*c.top_h);
    if (*c.top_k != 0) list.add<TopKLogitsWarper>(*c.top_k, keep);
    if (*c.top_p < 1.0) list.add<TopPLogitsWarper>(*c.top_p, keep);
    if (c.min_p) list.add<MinPLogitsWarper>(*c.min_p, keep);
    if (*c.typical_p < 1.0) list.add<TypicalLogitsWarper>(*c.typical_p, keep);
    if (*c.epsilon_cutoff > 0.0) list.add<EpsilonLogitsWarper>(*c.epsilon_cutoff, keep);
    if (*c.eta_cutoff > 0.0) list.add<EtaLogitsWarper>(*c.eta_cutoff, keep);
  }
  if (*c.renormalize_logits) list.add<LogitNormalization>();
  return list;
}

LogitsProcessorList make_logits_processors(const GenerationConfig& config, int64_t prompt_length, int64_t vocab_size,
                                           const LogitsProcessorList& custom, const at::Tensor& prompt) {
  LogitsProcessorList list = make_score_processors(config, prompt_length, vocab_size, custom, prompt);
  for (const LogitsProcessorPtr& warper : make_warpers(config)) list.append(warper);
  return list;
}

}  // namespace easydel

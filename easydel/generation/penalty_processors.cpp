#include "easydel/generation/penalty_processors.h"

#include <ATen/ATen.h>

#include <cmath>
#include <map>

#include "easydel/core/error.h"

namespace easydel {
namespace {

std::vector<SequenceBias> bad_words(const std::vector<std::vector<int64_t>>& words, const TokenIds& eos_token_id) {
  std::vector<SequenceBias> biases;
  for (const auto& word : words) {
    if (word.size() != 1 || !eos_token_id.contains(word[0])) biases.push_back({word, kNegativeInfinity});
  }
  return biases;
}

}  // namespace

at::Tensor RepetitionPenaltyLogitsProcessor::operator()(const at::Tensor& ids, const at::Tensor& scores) {
  const at::Tensor& tokens = seen_.defined() ? seen_ : ids;
  const at::Tensor seen = at::gather(scores, 1, tokens);
  return scores.scatter(1, tokens, at::where(seen < 0, seen * penalty_, seen / penalty_));
}

at::Tensor FrequencyPenaltyLogitsProcessor::operator()(const at::Tensor& ids, const at::Tensor& scores) {
  const int64_t generated = ids.size(1) - prompt_length_;
  if (generated <= 0) return scores;
  const at::Tensor tokens = ids.narrow(1, prompt_length_, generated);
  const at::Tensor counts =
      at::zeros_like(scores).scatter_add_(1, tokens, at::ones({1}, scores.options()).expand(tokens.sizes()));
  return scores - frequency_ * counts - presence_ * counts.gt(0);
}

namespace {

// Rules out what would complete an n-gram of `text` behind the last tokens of `ids`.
at::Tensor without_ngrams(const at::Tensor& text, const at::Tensor& ids, const at::Tensor& scores, int64_t size) {
  const int64_t length = ids.size(1), windows = text.size(1) - size + 1;
  if (length + 1 < size || windows <= 0) return scores;
  // One token of all windows at a time: the windows themselves would be `size` times the rows.
  at::Tensor matches = at::ones({text.size(0), windows}, text.options().dtype(at::kBool));
  for (int64_t i = 0; i + 1 < size; ++i)
    matches.logical_and_(text.narrow(1, i, windows).eq(ids.narrow(1, length + 1 - size + i, 1)));
  // What is not banned is written to a column that is cut off.
  const int64_t vocab = scores.size(1);
  at::Tensor banned = at::zeros({scores.size(0), vocab + 1}, scores.options().dtype(at::kBool));
  banned.scatter_(1, at::where(matches, text.narrow(1, size - 1, windows), vocab), true);
  return scores.masked_fill(banned.narrow(1, 0, vocab), kNegativeInfinity);
}

}  // namespace

at::Tensor NoRepeatNGramLogitsProcessor::operator()(const at::Tensor& ids, const at::Tensor& scores) {
  return without_ngrams(text_.defined() ? text_ : ids, ids, scores, size_);
}

SequenceBiasLogitsProcessor::SequenceBiasLogitsProcessor(const std::vector<SequenceBias>& biases, int64_t vocab_size,
                                                         std::string_view key) {
  single_ = at::zeros({vocab_size}, at::kFloat);
  std::map<std::vector<int64_t>, double> longer;  // the last of equal sequences counts
  float* const single = single_.mutable_data_ptr<float>();
  for (const auto& [ids, bias] : biases) {
    for (const int64_t id : ids) {
      require<ConfigError>(id >= 0 && id < vocab_size, "[GenerationConfig] ", key,
                           " must hold token ids below the vocabulary's size of ", vocab_size, "; got ", id, ".");
    }
    if (ids.size() == 1) {
      single[ids[0]] = static_cast<float>(bias);
    } else {
      longer[ids] = bias;
    }
  }
  for (const auto& [ids, bias] : longer) {
    longer_.push_back({at::tensor(at::ArrayRef<int64_t>(ids.data(), ids.size() - 1), at::kLong), ids.back(), bias});
  }
}

at::Tensor SequenceBiasLogitsProcessor::operator()(const at::Tensor& ids, const at::Tensor& scores) {
  if (single_.device() != scores.device()) {
    single_ = single_.to(scores.device());
    for (Longer& entry : longer_) entry.prefix = entry.prefix.to(scores.device());
  }
  at::Tensor bias = single_.to(scores.scalar_type()).expand(scores.sizes()).clone();
  for (const auto& [prefix, last, value] : longer_) {
    if (prefix.size(0) > ids.size(1)) continue;
    const at::Tensor matches = ids.narrow(1, ids.size(1) - prefix.size(0), prefix.size(0)).eq(prefix).all(1);
    at::Tensor column = bias.select(1, last);
    column.copy_(at::where(matches, column + value, column));
  }
  return scores + bias;
}

NoBadWordsLogitsProcessor::NoBadWordsLogitsProcessor(const std::vector<std::vector<int64_t>>& words,
                                                     const TokenIds& eos_token_id, int64_t vocab_size)
    : SequenceBiasLogitsProcessor(bad_words(words, eos_token_id), vocab_size, "bad_words_ids") {}

ExponentialDecayLengthPenalty::ExponentialDecayLengthPenalty(const ExponentialDecay& decay,
                                                             const TokenIds& eos_token_id, int64_t prompt_length)
    : start_(decay.start + prompt_length), factor_(decay.factor), eos_(at::tensor(eos_token_id.values(), at::kLong)) {}

at::Tensor ExponentialDecayLengthPenalty::operator()(const at::Tensor& ids, const at::Tensor& scores) {
  const int64_t steps = ids.size(1) - start_;
  if (steps <= 0) return scores;
  if (eos_.device() != scores.device()) eos_ = eos_.to(scores.device());
  const at::Tensor ends = scores.index_select(1, eos_);
  const at::Tensor added = ends.abs() * (std::pow(factor_, static_cast<double>(steps)) - 1);
  return scores.index_copy(1, eos_, ends + added.masked_fill(ends.isfinite().logical_not(), 0.0));
}

}  // namespace easydel

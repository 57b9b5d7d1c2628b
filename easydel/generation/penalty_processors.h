// Processors that look at the tokens so far: penalties on repetition, biases on sequences.
#pragma once

#include <utility>

#include "easydel/generation/logits_processor.h"

namespace easydel {

// Scores of tokens that have occurred, or of those in `seen`, are divided by the penalty when positive, else
// multiplied.
class RepetitionPenaltyLogitsProcessor : public LogitsProcessor {
 public:
  explicit RepetitionPenaltyLogitsProcessor(double penalty, at::Tensor seen = {})
      : penalty_(penalty), seen_(std::move(seen)) {}
  at::Tensor operator()(const at::Tensor& input_ids_BT, const at::Tensor& scores_BV) override;

 private:
  double penalty_;
  at::Tensor seen_;
};

// OpenAI's: score - count * frequency - (count > 0) * presence, where the count is of generated tokens.
class FrequencyPenaltyLogitsProcessor final : public LogitsProcessor {
 public:
  FrequencyPenaltyLogitsProcessor(double presence, double frequency, int64_t prompt_length)
      : presence_(presence), frequency_(frequency), prompt_length_(prompt_length) {}
  at::Tensor operator()(const at::Tensor& input_ids_BT, const at::Tensor& scores_BV) override;

 private:
  double presence_, frequency_;
  int64_t prompt_length_;
};

// Rules out the token that would repeat an n-gram of the tokens so far, or of `text`.
class NoRepeatNGramLogitsProcessor : public LogitsProcessor {
 public:
  explicit NoRepeatNGramLogitsProcessor(int64_t size, at::Tensor text = {}) : size_(size), text_(std::move(text)) {}
  at::Tensor operator()(const at::Tensor& input_ids_BT, const at::Tensor& scores_BV) override;

 private:
  int64_t size_;
  at::Tensor text_;
};

// Scores of tokens of the prompt are multiplied by the penalty when positive, else divided.
class EncoderRepetitionPenaltyLogitsProcessor final : public RepetitionPenaltyLogitsProcessor {
 public:
  EncoderRepetitionPenaltyLogitsProcessor(double penalty, at::Tensor prompt)
      : RepetitionPenaltyLogitsProcessor(1 / penalty, std::move(prompt)) {}
};

// Rules out the token that would repeat an n-gram of the prompt.
class EncoderNoRepeatNGramLogitsProcessor final : public NoRepeatNGramLogitsProcessor {
 public:
  using NoRepeatNGramLogitsProcessor::NoRepeatNGramLogitsProcessor;
};

// Adds a bias to the token that would complete a sequence. ConfigError on an id outside of the vocabulary.
class SequenceBiasLogitsProcessor : public LogitsProcessor {
 public:
  SequenceBiasLogitsProcessor(const std::vector<SequenceBias>& biases, int64_t vocab_size,
                              std::string_view key = "sequence_bias");
  at::Tensor operator()(const at::Tensor& input_ids_BT, const at::Tensor& scores_BV) override;

 private:
  struct Longer {
    at::Tensor prefix;
    int64_t last = 0;
    double bias = 0;
  };
  at::Tensor single_;  // [V]
  std::vector<Longer> longer_;
};

// The same with a bias of minus infinity. An end token by itself is never bad.
class NoBadWordsLogitsProcessor final : public SequenceBiasLogitsProcessor {
 public:
  NoBadWordsLogitsProcessor(const std::vector<std::vector<int64_t>>& words, const TokenIds& eos_token_id,
                            int64_t vocab_size);
};

// From `decay.start` new tokens on, |score| * (factor ^ steps - 1) is added to the end tokens.
class ExponentialDecayLengthPenalty final : public LogitsProcessor {
 public:
  ExponentialDecayLengthPenalty(const ExponentialDecay& decay, const TokenIds& eos_token_id, int64_t prompt_length);
  at::Tensor operator()(const at::Tensor& input_ids_BT, const at::Tensor& scores_BV) override;

 private:
  int64_t start_;
  double factor_;
  at::Tensor eos_;
};

}  // namespace easydel

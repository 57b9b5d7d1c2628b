// Processors that forbid or force tokens by how long a row is.
#pragma once

#include "easydel/generation/logits_processor.h"

namespace easydel {

// No end token while a row is shorter. Prompt and new tokens count; the class below counts from the prompt's end.
class MinLengthLogitsProcessor : public LogitsProcessor {
 public:
  MinLengthLogitsProcessor(int64_t min_length, const TokenIds& eos_token_id, int64_t vocab_size);
  at::Tensor operator()(const at::Tensor& input_ids_BT, const at::Tensor& scores_BV) override;

 private:
  int64_t min_length_;
  at::Tensor mask_;  // [V] bool
};

class MinNewTokensLengthLogitsProcessor final : public MinLengthLogitsProcessor {
 public:
  MinNewTokensLengthLogitsProcessor(int64_t prompt_length, int64_t min_new_tokens, const TokenIds& eos_token_id,
                                    int64_t vocab_size)
      : MinLengthLogitsProcessor(prompt_length + min_new_tokens, eos_token_id, vocab_size) {}
};

// The token after a first one.
class ForcedBOSTokenLogitsProcessor final : public LogitsProcessor {
 public:
  explicit ForcedBOSTokenLogitsProcessor(int64_t bos_token_id) : bos_token_id_(bos_token_id) {}
  at::Tensor operator()(const at::Tensor& input_ids_BT, const at::Tensor& scores_BV) override;

 private:
  int64_t bos_token_id_;
};

// The last token that max_length leaves room for.
class ForcedEOSTokenLogitsProcessor final : public LogitsProcessor {
 public:
  ForcedEOSTokenLogitsProcessor(int64_t max_length, const TokenIds& eos_token_id)
      : max_length_(max_length), eos_token_id_(eos_token_id) {}
  at::Tensor operator()(const at::Tensor& input_ids_BT, const at::Tensor& scores_BV) override;

 private:
  int64_t max_length_;
  TokenIds eos_token_id_;
};

class SuppressTokensLogitsProcessor final : public LogitsProcessor {
 public:
  SuppressTokensLogitsProcessor(const std::vector<int64_t>& tokens, int64_t vocab_size);
  at::Tensor operator()(const at::Tensor& input_ids_BT, const at::Tensor& scores_BV) override;

 private:
  at::Tensor mask_;
};

// The same for rows of exactly begin_index tokens.
class SuppressTokensAtBeginLogitsProcessor final : public LogitsProcessor {
 public:
  SuppressTokensAtBeginLogitsProcessor(const std::vector<int64_t>& tokens, int64_t begin_index, int64_t vocab_size);
  at::Tensor operator()(const at::Tensor& input_ids_BT, const at::Tensor& scores_BV) override;

 private:
  int64_t begin_index_;
  at::Tensor mask_;
};

// NaN becomes 0, infinities the largest and smallest finite numbers.
class InfNanRemoveLogitsProcessor final : public LogitsProcessor {
 public:
  at::Tensor operator()(const at::Tensor& input_ids_BT, const at::Tensor& scores_BV) override;
};

// Log-probabilities.
class LogitNormalization final : public LogitsProcessor {
 public:
  at::Tensor operator()(const at::Tensor& input_ids_BT, const at::Tensor& scores_BV) override;
};

}  // namespace easydel

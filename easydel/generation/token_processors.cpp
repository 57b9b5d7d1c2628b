#include "easydel/generation/token_processors.h"

#include <ATen/ATen.h>

namespace easydel {
namespace {

// Ids outside of the vocabulary are left out: transformers ignores them too.
at::Tensor token_mask(const std::vector<int64_t>& tokens, int64_t vocab_size) {
  at::Tensor mask = at::zeros({vocab_size}, at::kBool);
  bool* const at = mask.mutable_data_ptr<bool>();
  for (const int64_t id : tokens) {
    if (id >= 0 && id < vocab_size) at[id] = true;
  }
  return mask;
}

at::Tensor without(const at::Tensor& scores, at::Tensor& mask) {
  if (mask.device() != scores.device()) mask = mask.to(scores.device());
  return scores.masked_fill(mask, kNegativeInfinity);
}

at::Tensor only(const at::Tensor& scores, const std::vector<int64_t>& tokens) {
  at::Tensor forced = at::full_like(scores, kNegativeInfinity);
  for (const int64_t id : tokens) forced.select(1, id).fill_(0);
  return forced;
}

}  // namespace

MinLengthLogitsProcessor::MinLengthLogitsProcessor(int64_t min_length, const TokenIds& eos_token_id, int64_t vocab_size)
    : min_length_(min_length), mask_(token_mask(eos_token_id.values(), vocab_size)) {}

at::Tensor MinLengthLogitsProcessor::operator()(const at::Tensor& ids, const at::Tensor& scores) {
  return ids.size(1) < min_length_ ? without(scores, mask_) : scores;
}

at::Tensor ForcedBOSTokenLogitsProcessor::operator()(const at::Tensor& ids, const at::Tensor& scores) {
  return ids.size(1) == 1 ? only(scores, {bos_token_id_}) : scores;
}

at::Tensor ForcedEOSTokenLogitsProcessor::operator()(const at::Tensor& ids, const at::Tensor& scores) {
  return ids.size(1) == max_length_ - 1 ? only(scores, eos_token_id_.values()) : scores;
}

SuppressTokensLogitsProcessor::SuppressTokensLogitsProcessor(const std::vector<int64_t>& tokens, int64_t vocab_size)
    : mask_(token_mask(tokens, vocab_size)) {}

at::Tensor SuppressTokensLogitsProcessor::operator()(const at::Tensor&, const at::Tensor& scores) {
  return without(scores, mask_);
}

SuppressTokensAtBeginLogitsProcessor::SuppressTokensAtBeginLogitsProcessor(const std::vector<int64_t>& tokens,
                                                                           int64_t begin_index, int64_t vocab_size)
    : begin_index_(begin_index), mask_(token_mask(tokens, vocab_size)) {}

at::Tensor SuppressTokensAtBeginLogitsProcessor::operator()(const at::Tensor& ids, const at::Tensor& scores) {
  return ids.size(1) == begin_index_ ? without(scores, mask_) : scores;
}

at::Tensor InfNanRemoveLogitsProcessor::operator()(const at::Tensor&, const at::Tensor& scores) {
  return scores.nan_to_num(0.0);
}

at::Tensor LogitNormalization::operator()(const at::Tensor&, const at::Tensor& scores) {
  return scores.log_softmax(-1);
}

}  // namespace easydel

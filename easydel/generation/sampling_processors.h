// Processors that only sampling uses: they shape the distribution that tokens are drawn from.
#pragma once

#include "easydel/generation/logits_processor.h"

namespace easydel {

class TemperatureLogitsWarper final : public LogitsProcessor {
 public:
  explicit TemperatureLogitsWarper(double temperature) : temperature_(temperature) {}
  at::Tensor operator()(const at::Tensor& input_ids_BT, const at::Tensor& scores_BV) override;

 private:
  double temperature_;
};

// Each of the following sets all but some tokens to minus infinity. At least min_tokens_to_keep stay.
class TopKLogitsWarper final : public LogitsProcessor {
 public:
  explicit TopKLogitsWarper(int64_t top_k, int64_t min_tokens_to_keep = 1)
      : top_k_(std::max(top_k, min_tokens_to_keep)) {}
  at::Tensor operator()(const at::Tensor& input_ids_BT, const at::Tensor& scores_BV) override;

 private:
  int64_t top_k_;
};

class TopPLogitsWarper final : public LogitsProcessor {
 public:
  explicit TopPLogitsWarper(double top_p, int64_t min_tokens_to_keep = 1) : top_p_(top_p), keep_(min_tokens_to_keep) {}
  at::Tensor operator()(const at::Tensor& input_ids_BT, const at::Tensor& scores_BV) override;

 private:
  double top_p_;
  int64_t keep_;
};

// Of the hundred best tokens, those up to top_h times the entropy.
class TopHLogitsWarper final : public LogitsProcessor {
 public:
  explicit TopHLogitsWarper(double top_h) : top_h_(top_h) {}
  at::Tensor operator()(const at::Tensor& input_ids_BT, const at::Tensor& scores_BV) override;

 private:
  double top_h_;
};

class MinPLogitsWarper final : public LogitsProcessor {
 public:
  explicit MinPLogitsWarper(double min_p, int64_t min_tokens_to_keep = 1) : min_p_(min_p), keep_(min_tokens_to_keep) {}
  at::Tensor operator()(const at::Tensor& input_ids_BT, const at::Tensor& scores_BV) override;

 private:
  double min_p_;
  int64_t keep_;
};

class TypicalLogitsWarper final : public LogitsProcessor {
 public:
  explicit TypicalLogitsWarper(double mass, int64_t min_tokens_to_keep = 1) : mass_(mass), keep_(min_tokens_to_keep) {}
  at::Tensor operator()(const at::Tensor& input_ids_BT, const at::Tensor& scores_BV) override;

 private:
  double mass_;
  int64_t keep_;
};

class EpsilonLogitsWarper final : public LogitsProcessor {
 public:
  explicit EpsilonLogitsWarper(double epsilon, int64_t min_tokens_to_keep = 1)
      : epsilon_(epsilon), keep_(min_tokens_to_keep) {}
  at::Tensor operator()(const at::Tensor& input_ids_BT, const at::Tensor& scores_BV) override;

 private:
  double epsilon_;
  int64_t keep_;
};

class EtaLogitsWarper final : public LogitsProcessor {
 public:
  explicit EtaLogitsWarper(double epsilon, int64_t min_tokens_to_keep = 1)
      : epsilon_(epsilon), keep_(min_tokens_to_keep) {}
  at::Tensor operator()(const at::Tensor& input_ids_BT, const at::Tensor& scores_BV) override;

 private:
  double epsilon_;
  int64_t keep_;
};

}  // namespace easydel

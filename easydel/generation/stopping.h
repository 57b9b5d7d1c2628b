// What ends a row.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "easydel/infra/config/token_ids.h"

namespace easydel {

// Tokens to text. Special tokens may be left out.
using DecodeFunction = std::function<std::string(std::span<const int32_t>)>;

// A custom criterion derives from this and is passed in GenerateOptions::stopping_criteria.
class StoppingCriteria {
 public:
  virtual ~StoppingCriteria() = default;
  // Rows that end with their last token, [B] bool. Scores are those that the token was chosen by; in beam search,
  // where rows are candidates, they are undefined.
  virtual at::Tensor operator()(const at::Tensor& input_ids_BT, const at::Tensor& scores_BV) = 0;
};

using StoppingCriteriaPtr = std::shared_ptr<StoppingCriteria>;

// What the criterion says, on the rows' device. ShapeError when that is not a bool for each row.
at::Tensor ask(StoppingCriteria& criterion, const at::Tensor& input_ids_BT, const at::Tensor& scores_BV);

class EosTokenCriteria final : public StoppingCriteria {
 public:
  explicit EosTokenCriteria(const TokenIds& eos_token_id);
  at::Tensor operator()(const at::Tensor& input_ids_BT, const at::Tensor& scores_BV) override;

 private:
  at::Tensor eos_;
};

// Ends a row when its text contains one of the strings and the last token has a part in it. As in transformers the
// text is the prompt's and what follows it.
class StopStringCriteria final : public StoppingCriteria {
 public:
  StopStringCriteria(std::vector<std::string> strings, DecodeFunction decode);
  at::Tensor operator()(const at::Tensor& input_ids_BT, const at::Tensor& scores_BV) override;
  bool matches(std::span<const int32_t> ids) const;  // one row

 private:
  std::vector<std::string> strings_;
  DecodeFunction decode_;
  std::size_t longest_ = 0;
};

}  // namespace easydel

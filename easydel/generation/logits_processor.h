// What changes the scores of the next token before one is chosen.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "easydel/generation/generation_config.h"

namespace easydel {

constexpr double kNegativeInfinity =
    -std::numeric_limits<double>::infinity();  // the score of a token that is ruled out

// Letters: B rows, T tokens so far with the prompt, V vocabulary.
// A custom processor derives from this and is passed in GenerateOptions::logits_processor.
class LogitsProcessor {
 public:
  virtual ~LogitsProcessor() = default;
  // input_ids are int64, scores float32: logits, or log-probabilities in beam search. Returns scores of the same shape
  // and leaves the given ones as they are.
  virtual at::Tensor operator()(const at::Tensor& input_ids_BT, const at::Tensor& scores_BV) = 0;
};

using LogitsProcessorPtr = std::shared_ptr<LogitsProcessor>;

// One after another.
class LogitsProcessorList final : public LogitsProcessor {
 public:
  LogitsProcessorList() = default;
  LogitsProcessorList(std::initializer_list<LogitsProcessorPtr> processors) : processors_(processors) {}
  void append(LogitsProcessorPtr processor) { processors_.push_back(std::move(processor)); }
  template <class P, class... Arguments>
  void add(Arguments&&... arguments) {
    append(std::make_shared<P>(std::forward<Arguments>(arguments)...));
  }
  bool empty() const { return processors_.empty(); }
  std::size_t size() const { return processors_.size(); }
  auto begin() const { return processors_.begin(); }
  auto end() const { return processors_.end(); }
  at::Tensor operator()(const at::Tensor& input_ids_BT, const at::Tensor& scores_BV) override;

 private:
  std::vector<LogitsProcessorPtr> processors_;
};

// The processors of the config, in transformers' order. `custom` come after the penalties and before those that only
// sampling uses; one replaces a processor of the same class from the config. `config` has its defaults, and max_length
// and min_length that count the prompt. `prompt` [B, S], one row for each of the scores', is what the encoder_
// penalties look at: an encoder's input, or what a decoder continues.
LogitsProcessorList make_logits_processors(const GenerationConfig& config, int64_t prompt_length, int64_t vocab_size,
                                           const LogitsProcessorList& custom = {}, const at::Tensor& prompt = {});
// The two parts of it: what any way of choosing uses, and the rest.
LogitsProcessorList make_score_processors(const GenerationConfig& config, int64_t prompt_length, int64_t vocab_size,
                                          const LogitsProcessorList& custom = {}, const at::Tensor& prompt = {});
LogitsProcessorList make_warpers(const GenerationConfig& config);

}  // namespace easydel

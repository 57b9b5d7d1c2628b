// A class for each token of a decoder's text, as transformers' decoders for token classification have it.
#pragma once

#include <string>

#include "easydel/infra/decoder/decoder.h"

namespace easydel {

class TokenClassificationModule : public BaseModule {
 public:
  TaskType model_task() const override { return TaskType::TokenClassification; }
  std::string base_model_prefix() const override { return prefix_; }
  std::string torch_path(const std::string& path) const override { return base_->torch_path(path); }
  ModelOutput forward(const PreparedInputs& given) const override;
  void prepare_whole(PreparedInputs& inputs) const override;

 protected:
  TokenClassificationModule(const BaseConfig& config, std::string prefix)
      : BaseModule(config), prefix_(std::move(prefix)) {}
  void add_head(BaseModule& base, int64_t features);  // of its hidden states

 private:
  std::string prefix_;
  BaseModule* base_ = nullptr;
  Linear* score_ = nullptr;
  double dropout_ = 0;
};

template <class M>
class ForTokenClassification : public TokenClassificationModule {
 public:
  using ConfigType = typename M::ConfigType;
  explicit ForTokenClassification(const ConfigType& config, const char* prefix = "model")
      : TokenClassificationModule(config, prefix) {
    M& base = add<M>(prefix, config);
    add_head(base, base.embeddings().features_dim().size);
  }
};

}  // namespace easydel

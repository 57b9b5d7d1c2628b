// BERT and what is made of it: bert, roberta, xlm-roberta.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "easydel/infra/config/config.h"

namespace easydel {

struct BertFamilyConfig : BaseConfig {
  int64_t type_vocab_size = 2;
  double hidden_dropout_prob = 0.1;
  double attention_probs_dropout_prob = 0.1;
  std::optional<double> classifier_dropout;  // hidden_dropout_prob
  double layer_norm_eps = 1e-12;
  bool is_decoder = false;
  bool add_cross_attention = false;

  double head_dropout() const { return classifier_dropout.value_or(hidden_dropout_prob); }
  // RoBERTa's way: positions count from pad_token_id + 1 and skip padding, and heads have a layer of their own in place
  // of the pooler.
  virtual bool is_roberta() const { return false; }

  void fields(FieldVisitor& v) override;
  void validate() const override;
  PartitionRules get_partition_rules(bool fully_sharded = true) const override;

 protected:
  BertFamilyConfig();
};

struct BertConfig : Config<BertConfig, BertFamilyConfig> {
  static constexpr std::string_view kModelType = "bert";
};

}  // namespace easydel

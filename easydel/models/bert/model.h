// BERT: an encoder with learned positions, types of tokens and norms behind the residual sums.
#pragma once

#include "easydel/infra/encoder/seq2seq.h"
#include "easydel/layers/transformer_block.h"
#include "easydel/models/bert/config.h"

namespace easydel {

class BertLayer : public TransformerBlock {
 public:
  BertLayer(const BertFamilyConfig& config, int64_t layer_idx);
};

class BertEncoder : public BaseModule {
 public:
  explicit BertEncoder(const BertFamilyConfig& config, bool pools = true);
  ModelOutput forward(const PreparedInputs& inputs) const override;  // pooler_output where it pools
  ModelOutput encode(const PreparedInputs& inputs) const override;   // without it
  void prepare_whole(PreparedInputs& inputs) const override;
  const Embedding& embeddings() const { return *word_embeddings_; }
  at::Tensor pooled(const at::Tensor& rows) const;  // of the hidden states of first tokens, [B, D]

 private:
  const BertFamilyConfig& bert() const { return static_cast<const BertFamilyConfig&>(config()); }

  const Embedding *word_embeddings_, *position_embeddings_, *token_type_embeddings_;
  const LayerNorm* norm_;
  ModuleList<BertLayer>* layers_;
  const Linear* pooler_ = nullptr;
};

// A head on top of the encoder, which it holds under "bert" or "roberta".
class BertHead : public BaseModule {
 public:
  std::string base_model_prefix() const override { return prefix_; }

 protected:
  BertHead(const BertFamilyConfig& config, bool pools);
  const BertFamilyConfig& bert() const { return static_cast<const BertFamilyConfig&>(config()); }
  const BertEncoder& base() const { return *base_; }
  LinearOptions head_options(const char* name) const;

 private:
  std::string prefix_;
  const BertEncoder* base_;
};

class BertMaskedLM : public BertHead {
 public:
  explicit BertMaskedLM(const BertFamilyConfig& config);
  TaskType model_task() const override { return TaskType::MaskedLM; }
  ModelOutput forward(const PreparedInputs& inputs) const override;
  void prepare_whole(PreparedInputs& inputs) const override;

 private:
  const operations::Activation& act_;
  const Linear* dense_;
  const LayerNorm* norm_;
  Linear* decoder_;
};

class BertTokenClassification : public BertHead {
 public:
  explicit BertTokenClassification(const BertFamilyConfig& config);
  TaskType model_task() const override { return TaskType::TokenClassification; }
  ModelOutput forward(const PreparedInputs& inputs) const override;
  void prepare_whole(PreparedInputs& inputs) const override;

 private:
  const Linear* classifier_;
};

class BertQuestionAnswering : public BertHead {
 public:
  explicit BertQuestionAnswering(const BertFamilyConfig& config);
  TaskType model_task() const override { return TaskType::QuestionAnswering; }
  std::vector<std::string> extra_inputs() const override { return {"start_positions", "end_positions"}; }
  ModelOutput forward(const PreparedInputs& inputs) const override;
  void prepare_whole(PreparedInputs& inputs) const override;

 private:
  const Linear* qa_outputs_;
};

class BertSequenceClassification : public BertHead {
 public:
  explicit BertSequenceClassification(const BertFamilyConfig& config);
  TaskType model_task() const override { return TaskType::SequenceClassification; }
  ModelOutput forward(const PreparedInputs& inputs) const override;
  void prepare_whole(PreparedInputs& inputs) const override;

 private:
  const Linear *dense_ = nullptr, *classifier_;
};

class BertModel : public OfConfig<BertEncoder, BertConfig>, public Pretrained<BertModel> {
 public:
  using OfConfig::OfConfig;
};
class BertForMaskedLM : public OfConfig<BertMaskedLM, BertConfig>, public Pretrained<BertForMaskedLM> {
 public:
  using OfConfig::OfConfig;
};
class BertForTokenClassification : public OfConfig<BertTokenClassification, BertConfig>,
                                   public Pretrained<BertForTokenClassification> {
 public:
  using OfConfig::OfConfig;
};
class BertForQuestionAnswering : public OfConfig<BertQuestionAnswering, BertConfig>,
                                 public Pretrained<BertForQuestionAnswering> {
 public:
  using OfConfig::OfConfig;
};
class BertForSequenceClassification : public OfConfig<BertSequenceClassification, BertConfig>,
                                      public Pretrained<BertForSequenceClassification> {
 public:
  using OfConfig::OfConfig;
};

}  // namespace easydel

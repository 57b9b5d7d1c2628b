// ModernBERT: full attention in some layers and local attention in the others, and its heads.
#pragma once

#include "easydel/infra/decoder/decoder.h"
#include "easydel/models/modernbert/config.h"

namespace easydel {

class ModernBertEncoderLayer : public DecoderBlock {
 public:
  ModernBertEncoderLayer(const ModernBertConfig& config, int64_t layer_idx);
};

class ModernBertModel : public BaseModule, public Pretrained<ModernBertModel> {
 public:
  using ConfigType = ModernBertConfig;
  explicit ModernBertModel(const ModernBertConfig& config);
  ModelOutput forward(const PreparedInputs& inputs) const override;
  void prepare_whole(PreparedInputs& inputs) const override;
  const Embedding& embeddings() const { return tok_embeddings_; }

 private:
  Embedding& tok_embeddings_;
  const Norm& embedding_norm_;
  ModuleList<ModernBertEncoderLayer>& layers_;
  const Norm& final_norm_;
};

// A head on top of the encoder: a linear map, an activation and a norm, and what a task makes of that.
class ModernBertHead : public BaseModule {
 public:
  using ConfigType = ModernBertConfig;
  std::string base_model_prefix() const override { return "model"; }

 protected:
  explicit ModernBertHead(const ModernBertConfig& config);
  const ModernBertConfig& bert() const { return static_cast<const ModernBertConfig&>(config()); }
  const ModernBertModel& base() const { return base_; }
  at::Tensor transform(const at::Tensor& hidden) const { return norm_(act_(dense_(hidden))); }
  // The same with some of it dropped in training.
  at::Tensor transform_tokens(const at::Tensor& hidden, const PreparedInputs& inputs) const;
  Linear& add_classifier();

 private:
  const ModernBertModel& base_;
  const operations::Activation& act_;
  const Linear& dense_;
  const Norm& norm_;
};

class ModernBertForMaskedLM : public ModernBertHead, public Pretrained<ModernBertForMaskedLM> {
 public:
  explicit ModernBertForMaskedLM(const ModernBertConfig& config);
  TaskType model_task() const override { return TaskType::MaskedLM; }
  ModelOutput forward(const PreparedInputs& inputs) const override;
  void prepare_whole(PreparedInputs& inputs) const override;

 private:
  Linear& decoder_;
};

class ModernBertForTokenClassification : public ModernBertHead, public Pretrained<ModernBertForTokenClassification> {
 public:
  explicit ModernBertForTokenClassification(const ModernBertConfig& config);
  TaskType model_task() const override { return TaskType::TokenClassification; }
  ModelOutput forward(const PreparedInputs& inputs) const override;
  void prepare_whole(PreparedInputs& inputs) const override;

 private:
  const Linear& classifier_;
};

class ModernBertForQuestionAnswering : public ModernBertHead, public Pretrained<ModernBertForQuestionAnswering> {
 public:
  explicit ModernBertForQuestionAnswering(const ModernBertConfig& config);
  TaskType model_task() const override { return TaskType::QuestionAnswering; }
  std::vector<std::string> extra_inputs() const override { return {"start_positions", "end_positions"}; }
  ModelOutput forward(const PreparedInputs& inputs) const override;
  void prepare_whole(PreparedInputs& inputs) const override;

 private:
  const Linear& classifier_;
};

class ModernBertForSequenceClassification : public ModernBertHead,
                                            public Pretrained<ModernBertForSequenceClassification> {
 public:
  explicit ModernBertForSequenceClassification(const ModernBertConfig& config);
  TaskType model_task() const override { return TaskType::SequenceClassification; }
  ModelOutput forward(const PreparedInputs& inputs) const override;
  void prepare_whole(PreparedInputs& inputs) const override;

 private:
  at::Tensor mean_of_tokens(const at::Tensor& hidden, const PreparedInputs& inputs) const;  // [B, T, D], all alike

  const Linear& classifier_;
};

}  // namespace easydel

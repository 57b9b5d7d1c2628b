// T5: an encoder and a decoder with learned biases on distances in place of positions, and unscaled scores.
#pragma once

#include "easydel/infra/encoder/seq2seq.h"
#include "easydel/layers/transformer_block.h"
#include "easydel/models/t5/config.h"

namespace easydel {

enum class T5Part { Encoder, Decoder };

class T5Block : public TransformerBlock {
 public:
  T5Block(const T5FamilyConfig& config, T5Part part, int64_t layer_idx);
};

class T5Stack : public Module {
 public:
  T5Stack(const T5FamilyConfig& config, T5Part part, const Embedding& shared);
  // `states`: of the encoder, for the decoder.
  ModelOutput operator()(const BaseModule& model, const PreparedInputs& inputs, const EncoderStates* states) const;

 private:
  double dropout_;
  bool shares_bias_;
  const Embedding& embed_tokens_;
  ModuleList<T5Block>& block_;
  const RMSNorm& final_layer_norm_;
};

// Both stacks; what its classes are on top of that is their own.
class T5Stacks : public Seq2SeqModel {
 public:
  explicit T5Stacks(const T5FamilyConfig& config);
  const Embedding& embeddings() const { return shared_; }
  const T5FamilyConfig& t5_config() const { return static_cast<const T5FamilyConfig&>(config()); }

 protected:
  ModelOutput encoder_forward(const PreparedInputs& inputs) const override;
  ModelOutput decoder_forward(const PreparedInputs& inputs, const EncoderStates& states) const override;
  RightShift right_shift() const override;

 private:
  const Embedding& shared_;
  const T5Stack& encoder_;
  const T5Stack& decoder_;
};

// The classes of transformers, for any config of the family.
class T5LanguageModel : public T5Stacks {
 public:
  explicit T5LanguageModel(const T5FamilyConfig& config);
  TaskType model_task() const override { return TaskType::SequenceToSequence; }
  bool can_generate() const override { return true; }
  ModelOutput forward(const PreparedInputs& inputs) const override;
  void prepare_whole(PreparedInputs& inputs) const override;

 private:
  Linear& lm_head_;
};

class T5QuestionAnswering : public T5Stacks {
 public:
  explicit T5QuestionAnswering(const T5FamilyConfig& config);
  TaskType model_task() const override { return TaskType::QuestionAnswering; }
  std::vector<std::string> extra_inputs() const override;
  ModelOutput forward(const PreparedInputs& inputs) const override;
  void prepare_whole(PreparedInputs& inputs) const override;

 protected:
  bool decoder_reads_inputs() const override { return true; }

 private:
  const Linear& qa_outputs_;
};

class T5SequenceClassification : public Seq2SeqHead {
 public:
  explicit T5SequenceClassification(const T5FamilyConfig& config);
  TaskType model_task() const override { return TaskType::SequenceClassification; }
  ModelOutput forward(const PreparedInputs& inputs) const override;
  void prepare_whole(PreparedInputs& inputs) const override;

 private:
  double dropout_;
  const Linear *dense_, *out_proj_;
};

class T5EncoderStack : public BaseModule {
 public:
  explicit T5EncoderStack(const T5FamilyConfig& config);
  ModelOutput forward(const PreparedInputs& inputs) const override;
  void prepare_whole(PreparedInputs& inputs) const override { see_both_ways(inputs); }

 private:
  const Embedding& shared_;
  const T5Stack& encoder_;
};

class T5TokenClassification : public BaseModule {
 public:
  explicit T5TokenClassification(const T5FamilyConfig& config);
  TaskType model_task() const override { return TaskType::TokenClassification; }
  std::string base_model_prefix() const override { return "transformer"; }
  ModelOutput forward(const PreparedInputs& inputs) const override;
  void prepare_whole(PreparedInputs& inputs) const override;

 private:
  double dropout_;
  const T5EncoderStack& transformer_;
  const Linear& classifier_;
};

class T5Model : public OfConfig<T5Stacks, T5Config>, public Pretrained<T5Model> {
 public:
  using OfConfig::OfConfig;
};
class T5EncoderModel : public OfConfig<T5EncoderStack, T5Config>, public Pretrained<T5EncoderModel> {
 public:
  using OfConfig::OfConfig;
};
class T5ForConditionalGeneration : public OfConfig<T5LanguageModel, T5Config>,
                                   public Pretrained<T5ForConditionalGeneration> {
 public:
  using OfConfig::OfConfig;
};
class T5ForQuestionAnswering : public OfConfig<T5QuestionAnswering, T5Config>,
                               public Pretrained<T5ForQuestionAnswering> {
 public:
  using OfConfig::OfConfig;
};
class T5ForSequenceClassification : public OfConfig<T5SequenceClassification, T5Config>,
                                    public Pretrained<T5ForSequenceClassification> {
 public:
  using OfConfig::OfConfig;
};
class T5ForTokenClassification : public OfConfig<T5TokenClassification, T5Config>,
                                 public Pretrained<T5ForTokenClassification> {
 public:
  using OfConfig::OfConfig;
};

}  // namespace easydel

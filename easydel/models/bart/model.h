// BART: an encoder and a decoder with learned positions and norms behind the residual sums (mbart: before).
#pragma once

#include "easydel/infra/encoder/seq2seq.h"
#include "easydel/infra/files/weights.h"
#include "easydel/layers/transformer_block.h"
#include "easydel/models/bart/config.h"

namespace easydel {

enum class BartPart { Encoder, Decoder };

// Without tie_word_embeddings each stack has a table of its own, which older files, with one for both, do not have.
class BartFileNames : public OlderFileNames {
 public:
  std::vector<std::string> older_names(const std::string& path) const override;
};

class BartLayer : public TransformerBlock {
 public:
  BartLayer(const BartFamilyConfig& config, BartPart part, int64_t layer_idx);
};

class BartStack : public Module {
 public:
  BartStack(const BartFamilyConfig& config, BartPart part, const Embedding& shared);
  // `states`: of the encoder, for the decoder.
  ModelOutput operator()(const BaseModule& model, const PreparedInputs& inputs, const EncoderStates* states) const;

 private:
  const Embedding& add_positions(const BartFamilyConfig& config);

  double dropout_, layerdrop_, scale_;
  const Embedding& embed_tokens_;
  int64_t first_position_;  // row of the table
  const Embedding& embed_positions_;
  ModuleList<BartLayer>& layers_;
  const Norm* layernorm_embedding_ = nullptr;  // with learned positions
  const Norm* layer_norm_ = nullptr;           // at the end, where the layers' norms come first
};

class BartStacks : public Seq2SeqModel, public BartFileNames {
 public:
  explicit BartStacks(const BartFamilyConfig& config);
  const Embedding& embeddings() const { return shared_; }

 protected:
  ModelOutput encoder_forward(const PreparedInputs& inputs) const override;
  ModelOutput decoder_forward(const PreparedInputs& inputs, const EncoderStates& states) const override;
  RightShift right_shift() const override;
  bool decoder_reads_inputs() const override { return !bart().has_sinusoids(); }

 private:
  const BartFamilyConfig& bart() const { return static_cast<const BartFamilyConfig&>(config()); }

  const Embedding& shared_;
  const BartStack& encoder_;
  const BartStack& decoder_;
};

class BartLanguageModel : public Seq2SeqHead, public BartFileNames {
 public:
  explicit BartLanguageModel(const BartFamilyConfig& config);
  TaskType model_task() const override { return TaskType::SequenceToSequence; }
  bool can_generate() const override { return true; }
  ModelOutput forward(const PreparedInputs& inputs) const override;
  void prepare_whole(PreparedInputs& inputs) const override;

 private:
  Linear* lm_head_;
  std::shared_ptr<Parameter> final_logits_bias_;
};

class BartQuestionAnswering : public Seq2SeqHead, public BartFileNames {
 public:
  explicit BartQuestionAnswering(const BartFamilyConfig& config);
  TaskType model_task() const override { return TaskType::QuestionAnswering; }
  std::vector<std::string> extra_inputs() const override;
  ModelOutput forward(const PreparedInputs& inputs) const override;
  void prepare_whole(PreparedInputs& inputs) const override;

 private:
  const Linear* qa_outputs_;
};

class BartSequenceClassification : public Seq2SeqHead, public BartFileNames {
 public:
  explicit BartSequenceClassification(const BartFamilyConfig& config);
  TaskType model_task() const override { return TaskType::SequenceClassification; }
  ModelOutput forward(const PreparedInputs& inputs) const override;
  void prepare_whole(PreparedInputs& inputs) const override;

 private:
  double dropout_;
  const Linear *dense_, *out_proj_;
};

class BartModel : public OfConfig<BartStacks, BartConfig>, public Pretrained<BartModel> {
 public:
  using OfConfig::OfConfig;
};
class BartForConditionalGeneration : public OfConfig<BartLanguageModel, BartConfig>,
                                     public Pretrained<BartForConditionalGeneration> {
 public:
  using OfConfig::OfConfig;
};
class BartForQuestionAnswering : public OfConfig<BartQuestionAnswering, BartConfig>,
                                 public Pretrained<BartForQuestionAnswering> {
 public:
  using OfConfig::OfConfig;
};
class BartForSequenceClassification : public OfConfig<BartSequenceClassification, BartConfig>,
                                      public Pretrained<BartForSequenceClassification> {
 public:
  using OfConfig::OfConfig;
};

}  // namespace easydel

// Whisper: an encoder of mel frames, and a decoder that writes what was said.
#pragma once

#include "easydel/infra/encoder/seq2seq.h"
#include "easydel/layers/conv1d.h"
#include "easydel/layers/sinusoids.h"
#include "easydel/layers/transformer_block.h"
#include "easydel/models/whisper/config.h"

namespace easydel {

enum class WhisperPart { Encoder, Decoder };

class WhisperLayer : public TransformerBlock {
 public:
  WhisperLayer(const WhisperConfig& config, WhisperPart part, int64_t layer_idx);
};

class WhisperEncoder : public Module {
 public:
  explicit WhisperEncoder(const WhisperConfig& config);
  // Of input_features [B, mel features, frames] of a rank's rows: states of its tokens.
  ModelOutput operator()(const BaseModule& model, const PreparedInputs& inputs) const;
  // ShapeError where the features are not those that the config says.
  void check(const BaseModule& model, const ModelInputs& inputs) const;

 private:
  int64_t mel_bins_, frames_;
  double dropout_, layerdrop_;
  bool augments_;
  const Conv1d &conv1_, &conv2_;
  const SinusoidalPositions& embed_positions_;
  ModuleList<WhisperLayer>& layers_;
  const LayerNorm& layer_norm_;
};

class WhisperDecoder : public Module {
 public:
  explicit WhisperDecoder(const WhisperConfig& config);
  ModelOutput operator()(const BaseModule& model, const PreparedInputs& inputs, const EncoderStates& states) const;
  const Embedding& embeddings() const { return embed_tokens_; }

 private:
  double dropout_, layerdrop_;
  const Embedding &embed_tokens_, &embed_positions_;
  ModuleList<WhisperLayer>& layers_;
  const LayerNorm& layer_norm_;
};

class WhisperModel : public Seq2SeqModel, public Pretrained<WhisperModel> {
 public:
  using ConfigType = WhisperConfig;
  explicit WhisperModel(const WhisperConfig& config);
  std::string main_input_name() const override { return "input_features"; }
  std::vector<std::string> extra_inputs() const override;
  void prepare_whole(PreparedInputs& inputs) const override;
  const Embedding& embeddings() const { return decoder_.embeddings(); }

 protected:
  ModelOutput encoder_forward(const PreparedInputs& inputs) const override;
  ModelOutput decoder_forward(const PreparedInputs& inputs, const EncoderStates& states) const override;
  RightShift right_shift() const override;

 private:
  const WhisperEncoder& encoder_;
  const WhisperDecoder& decoder_;
};

class WhisperForConditionalGeneration : public Seq2SeqHead, public Pretrained<WhisperForConditionalGeneration> {
 public:
  using ConfigType = WhisperConfig;
  explicit WhisperForConditionalGeneration(const WhisperConfig& config);
  TaskType model_task() const override { return TaskType::SpeechSequenceToSequence; }
  std::string main_input_name() const override { return "input_features"; }
  bool can_generate() const override { return true; }
  ModelOutput forward(const PreparedInputs& inputs) const override;
  void prepare_whole(PreparedInputs& inputs) const override;

 private:
  Linear* proj_out_;
};

// Labels of whole recordings: the mean of the encoder's states.
class WhisperForAudioClassification : public BaseModule, public Pretrained<WhisperForAudioClassification> {
 public:
  using ConfigType = WhisperConfig;
  explicit WhisperForAudioClassification(const WhisperConfig& config);
  TaskType model_task() const override { return TaskType::AudioClassification; }
  std::string main_input_name() const override { return "input_features"; }
  std::vector<std::string> extra_inputs() const override { return {"input_features"}; }
  ModelOutput forward(const PreparedInputs& inputs) const override;
  void prepare_whole(PreparedInputs& inputs) const override;

 private:
  const WhisperEncoder& encoder_;
  std::shared_ptr<Parameter> layer_weights_;  // with use_weighted_layer_sum
  const Linear* projector_;
  const Linear* classifier_;
};

}  // namespace easydel

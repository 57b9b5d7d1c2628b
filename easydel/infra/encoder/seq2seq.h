// What encoder-decoders have in common: the two stacks, and a language modelling head on the second.
#pragma once

#include <optional>

#include "easydel/infra/decoder/decoder.h"
#include "easydel/infra/encoder/seq2seq_inputs.h"

namespace easydel {

// What attention to the encoder reads, in the context of a decoder's pass.
struct EncoderStates {
  at::Tensor hidden;  // [B, S, D] of this rank's rows and all tokens
  MaskInfo mask;
  BatchPart part = {};

  void put_into(ForwardContext& ctx) const;
};

// A base model of both stacks; a head derives from it, or holds one.
class Seq2SeqModel : public BaseModule {
 public:
  std::vector<std::string> extra_inputs() const override;
  ModelOutput encode(const PreparedInputs& inputs) const override;
  // last_hidden_state, hidden_states and attentions are the decoder's. ConfigError without decoder inputs.
  ModelOutput forward(const PreparedInputs& inputs) const override;
  void prepare_whole(PreparedInputs& inputs) const override;
  // Makes the decoder's ids of labels [B, T], where nothing else says what they are.
  void shift_labels(PreparedInputs& inputs) const;

 protected:
  explicit Seq2SeqModel(const BaseConfig& config) : BaseModule(config) {}

  // Of inputs as a model of one stack gets them.
  virtual ModelOutput encoder_forward(const PreparedInputs& inputs) const = 0;
  virtual ModelOutput decoder_forward(const PreparedInputs& inputs, const EncoderStates& states) const = 0;
  virtual RightShift right_shift() const = 0;
  virtual bool decoder_reads_inputs() const { return false; }  // where nothing else says what the decoder reads
};

// What a head does around a base model of both stacks that it holds.
class Seq2SeqHead : public BaseModule {
 public:
  std::vector<std::string> extra_inputs() const override { return base_->extra_inputs(); }
  std::string base_model_prefix() const override { return prefix_; }
  std::string torch_path(const std::string& path) const override { return base_->torch_path(path); }
  ModelOutput encode(const PreparedInputs& inputs) const override { return base_->encode(inputs); }

 protected:
  Seq2SeqHead(const BaseConfig& config, std::string prefix) : BaseModule(config), prefix_(std::move(prefix)) {}
  void set_base(const Seq2SeqModel& base) { base_ = &base; }
  const Seq2SeqModel& base() const { return *base_; }

 private:
  std::string prefix_;
  const Seq2SeqModel* base_ = nullptr;
};

// A class of one config, of a family whose configs share their layers.
template <class Base, class C>
class OfConfig : public Base {
 public:
  using ConfigType = C;
  explicit OfConfig(const C& config) : Base(config) {}
};

// The last end token of each row of input_ids represents it; ConfigError unless all rows have equally many.
at::Tensor last_end_tokens(const BaseModule& model, const PreparedInputs& inputs);

}  // namespace easydel

// BART and what is made of it: bart, mbart, pegasus.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "easydel/infra/config/config.h"

namespace easydel {

// config.json says d_model, encoder_layers, encoder_attention_heads, encoder_ffn_dim, activation_function and init_std
// for hidden_size, num_hidden_layers, num_attention_heads, intermediate_size, hidden_act and initializer_range.
struct BartFamilyConfig : BaseConfig {
  int64_t decoder_layers = 12;
  int64_t decoder_attention_heads = 16;
  int64_t decoder_ffn_dim = 4096;
  double encoder_layerdrop = 0.0;
  double decoder_layerdrop = 0.0;
  double dropout = 0.1;
  double attention_dropout = 0.0;
  double activation_dropout = 0.0;
  double classifier_dropout = 0.0;
  bool scale_embedding = false;
  bool is_decoder = false;
  std::optional<int64_t> decoder_start_token_id;
  TokenIds forced_eos_token_id = 2;

  virtual bool has_post_norm() const { return true; }      // else norms precede, and the stacks end with one
  virtual bool wraps_last_token() const { return false; }  // the decoder begins with the last token of a row
  // As in Pegasus: sinusoidal positions, and no norm after the embeddings.
  virtual bool has_sinusoids() const { return false; }

  void fields(FieldVisitor& v) override;
  void validate() const override;
  PartitionRules get_partition_rules(bool fully_sharded = true) const override;

 protected:
  BartFamilyConfig();
  void seq2seq_fields(FieldVisitor& v);  // all but classifier_dropout and bos_token_id
};

struct BartConfig : Config<BartConfig, BartFamilyConfig> {
  static constexpr std::string_view kModelType = "bart";
  BartConfig();
};

}  // namespace easydel

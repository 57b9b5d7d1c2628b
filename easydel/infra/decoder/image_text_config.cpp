#include "easydel/infra/decoder/image_text_config.h"

#include "easydel/infra/parallel/weight_specs.h"

namespace easydel {

void take_from_decoder(BaseConfig& config, const SubConfig& text) {
  config.vocab_size = text->vocab_size;
  config.hidden_size = text->hidden_size;
  config.num_attention_heads = text->num_attention_heads;
  config.num_key_value_heads = text->num_key_value_heads;
  config.head_dim = text->head_dim;
  config.num_hidden_layers = text->num_hidden_layers;
  config.max_position_embeddings = text->max_position_embeddings;
  config.bos_token_id = text->bos_token_id;
  config.eos_token_id = text->eos_token_id;
  config.pad_token_id = text->pad_token_id;
  config.rope = text->rope;
}

PartitionRules image_rules(const BaseConfig& config, const std::vector<std::pair<std::string, const SubConfig*>>& parts,
                           std::vector<PartitionRule> own, bool fully_sharded) {
  std::vector<PartitionRule> rules;
  for (const char* whole : {"model.", ""}) {
    for (const auto& [prefix, sub] : parts) {
      for (PartitionRule& rule : sub->rules_under(whole + prefix, fully_sharded, config))
        rules.push_back(std::move(rule));
    }
  }
  for (PartitionRule& rule : own) rules.push_back(std::move(rule));
  const WeightSpecs specs(config.sharding, fully_sharded);
  rules.push_back({"lm_head\\.weight$", specs.split_first(LogicalAxis::Vocab)});
  rules.push_back({".*", {}});
  return PartitionRules(std::move(rules));
}

}  // namespace easydel

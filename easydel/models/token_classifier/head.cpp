#include "easydel/models/token_classifier/head.h"

#include <ATen/ATen.h>

#include "easydel/infra/heads/token_head.h"

namespace easydel {

void TokenClassificationModule::add_head(BaseModule& base, int64_t features) {
  base_ = &base;
  score_ = &add<Linear>("score", features, config().num_labels(),
                        LinearOptions{.bias = true, .init_stddev = config().initializer_range, .name = "score"});
  dropout_ = 0.1;  // transformers' default
  for (const char* key : {"hidden_dropout", "classifier_dropout"}) {
    if (const Json given = config().get(key); given.is_number()) dropout_ = given.as_double();
  }
}

void TokenClassificationModule::prepare_whole(PreparedInputs& inputs) const {
  take_token_labels(*this, inputs.input_ids.defined() ? inputs.input_ids : inputs.inputs_embeds, inputs);
}

ModelOutput TokenClassificationModule::forward(const PreparedInputs& given) const {
  PreparedInputs inputs = given;
  const bool has_routers = router_balance_of(config()).top_k > 0;
  inputs.output_router_logits = has_routers && given.output_router_logits.value_or(false);
  ModelOutput out = base_->forward(inputs);
  out.aux_loss = router_loss(*this, out, inputs);
  at::Tensor hidden = out.last_hidden_state;
  if (inputs.dropout_key && dropout_ > 0)
    hidden = drop(hidden, dropout_, inputs.dropout_key->fold("score"), inputs.part.value_or(BatchPart()));
  add_token_outputs(*this, *score_, hidden, inputs, {}, out);
  return out;
}

}  // namespace easydel

#include "easydel/infra/encoder/image_classification.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "easydel/core/error.h"
#include "easydel/infra/encoder/encoder.h"
#include "easydel/infra/loss.h"

namespace easydel {

void ImageClassificationModule::add_head(BaseModule& tower, int64_t features, double init_stddev) {
  tower_ = &tower;
  classifier_ = &add<Linear>("classifier", features, config().num_labels(),
                             LinearOptions{.bias = true, .init_stddev = init_stddev, .name = "score"});
}

void ImageClassificationModule::prepare_whole(PreparedInputs& inputs) const {
  inputs.targets = inputs.labels;
  if (!inputs.labels.defined()) return;
  const int64_t images = inputs.pixel_values.size(0);
  require<ShapeError>(inputs.labels.dim() >= 1 && inputs.labels.size(0) == images, "[", type_name(),
                      "] labels must be [", images, "] or [", images, ", ", config().num_labels(), "]; got ",
                      inputs.labels.sizes(), ".");
}

ModelOutput ImageClassificationModule::forward(const PreparedInputs& inputs) const {
  ModelOutput out = tower_->forward(inputs);
  out.logits = (*classifier_)(pooled(out.last_hidden_state));
  out.last_hidden_state.reset();
  out.pooler_output.reset();
  if (!inputs.targets.defined()) return out;
  int64_t rows = out.logits.size(0);
  if (parallel()) rows = std::clamp<int64_t>(inputs.part->given_batch - inputs.part->first_row, 0, rows);
  Loss loss = classification_loss(out.logits.narrow(0, 0, rows), inputs.targets.narrow(0, 0, rows),
                                  inputs.loss_config.value_or(LossConfig()), config().problem_type, parallel().get());
  out.loss = std::move(loss.loss);
  out.metrics = std::move(loss.metrics);
  return out;
}

}  // namespace easydel

#include "easydel/infra/encoder/two_towers.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "easydel/core/error.h"
#include "easydel/infra/parallel/batch_part.h"
#include "easydel/sharding/collectives/collectives.h"

namespace easydel {
namespace {

// The rows of all ranks, which then compute different things with them.
at::Tensor shared_rows(const at::Tensor& x, const std::optional<BatchPart>& part, const Parallel* parallel) {
  if (!parallel) return x;
  return collectives::identity_forward_sum_backward(gather_rows(x, *part, *parallel),
                                                    parallel->group(parallel->batch()));
}

// Each row's own number is the right one; the sum of what is missed.
at::Tensor missed(const at::Tensor& logits, int64_t first) {
  const at::Tensor right = at::arange(first, first + logits.size(0), logits.options().dtype(at::kLong));
  return at::nll_loss(at::log_softmax(logits, -1), right, {}, at::Reduction::Sum);
}

}  // namespace

void TwoTowerModule::prepare_whole(PreparedInputs& inputs) const {
  require<ConfigError>(inputs.pixel_values.defined() && inputs.input_ids.defined(), "[", type_name(),
                       "] input_ids and pixel_values are both needed.");
  const int64_t texts = inputs.input_ids.size(0), images = inputs.pixel_values.size(0);
  require<ShapeError>(!inputs.return_loss.value_or(false) || texts == images, "[", type_name(),
                      "] a loss needs an image for each text; got ", images, " and ", texts, ".");
  require<NotSupportedError>(!inputs.labels.defined(), "[", type_name(),
                             "] takes no labels; set return_loss to get its loss.");
  prepare_texts(inputs);
}

at::Tensor TwoTowerModule::text_features(const ModelInputs& given) const {
  require<NotSupportedError>(!parallel(), "[", type_name(),
                             "] text and image features are computed on one device only.");
  require<ConfigError>(given.input_ids.defined(), "[", type_name(), "] texts need input_ids.");
  PreparedInputs inputs(given);
  inputs.pixel_values.reset();
  const int64_t tokens = inputs.input_ids.size(1);
  inputs.position_ids = at::arange(tokens, inputs.input_ids.options().dtype(at::kLong))
                            .unsqueeze(0)
                            .expand({inputs.input_ids.size(0), tokens});
  MaskInfo mask;
  mask.padding_mask = inputs.attention_mask;
  inputs.mask_info = mask;
  prepare_texts(inputs);
  return texts_of(inputs);
}

at::Tensor TwoTowerModule::image_features(const ModelInputs& given) const {
  require<NotSupportedError>(!parallel(), "[", type_name(),
                             "] text and image features are computed on one device only.");
  require<ConfigError>(given.pixel_values.defined(), "[", type_name(), "] images need pixel_values.");
  return images_of(PreparedInputs(given));
}

ModelOutput TwoTowerModule::forward(const PreparedInputs& inputs) const {
  const Parallel* const mesh = parallel().get();
  const Similarity how = similarity();
  const auto unit = [](const at::Tensor& x) { return x / x.norm(2, {-1}, /*keepdim=*/true); };
  const at::Tensor images = unit(images_of(inputs)), texts = unit(texts_of(inputs));
  const at::Tensor all_images = shared_rows(images, inputs.decoder_part, mesh);
  const at::Tensor all_texts = shared_rows(texts, inputs.part, mesh);
  const auto logits = [&](const at::Tensor& rows, const at::Tensor& others) {
    const at::Tensor scaled = at::matmul(rows, others.t()) * how.scale.exp();
    return how.bias.defined() ? scaled + how.bias : scaled;
  };
  const at::Tensor by_text = logits(texts, all_images), by_image = logits(images, all_texts);

  ModelOutput out;
  const auto whole = [&](const at::Tensor& x, const std::optional<BatchPart>& part) {
    return mesh ? gather_rows(x, *part, *mesh) : x;
  };
  out.text_embeds = whole(texts, inputs.part);
  out.image_embeds = whole(images, inputs.decoder_part);
  out.logits_per_text = whole(by_text, inputs.part);
  out.logits_per_image = whole(by_image, inputs.decoder_part);
  if (!inputs.return_loss.value_or(false)) return out;

  const int64_t count = mesh ? inputs.part->given_batch : texts.size(0);
  const int64_t first = mesh ? std::min(inputs.part->first_row, count) : 0;
  const int64_t rows = std::clamp<int64_t>(count - first, 0, texts.size(0));
  const at::Tensor own_text = by_text.narrow(0, 0, rows), own_image = by_image.narrow(0, 0, rows);
  if (how.loss == ContrastiveLoss::Softmax) {
    out.loss = (missed(own_text, first) + missed(own_image, first)) / (2.0 * static_cast<double>(count));
  } else {
    const at::Tensor sign = 2 * at::eye(count, own_text.options()).narrow(0, first, rows) - 1;
    out.loss = -at::log_sigmoid(sign * own_text).sum() / static_cast<double>(count);
  }
  if (mesh) out.loss = collectives::sum(out.loss, mesh->group(mesh->batch()));
  out.metrics.loss = out.loss.detach();
  return out;
}

}  // namespace easydel

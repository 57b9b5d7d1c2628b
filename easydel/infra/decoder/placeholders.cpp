#include "easydel/infra/decoder/placeholders.h"

#include <ATen/ATen.h>

namespace easydel {
namespace {

at::Tensor of_each_token(const at::Tensor& like_BTD, const at::Tensor& numbers, const at::Tensor& features) {
  const at::Tensor places = (numbers.flatten() - 1).clamp(0, features.size(0) - 1);
  return features.index_select(0, places).view_as(like_BTD).to(like_BTD.scalar_type());
}

}  // namespace

at::Tensor number_placeholders(const at::Tensor& is_place, int64_t before) {
  const at::Tensor number = is_place.flatten().cumsum(0).view_as(is_place) + before;
  return at::where(is_place, number, at::zeros_like(number));
}

at::Tensor put_features(const at::Tensor& embeds_BTD, const at::Tensor& numbers, const at::Tensor& features) {
  return at::where(numbers.gt(0).unsqueeze(-1), of_each_token(embeds_BTD, numbers, features), embeds_BTD);
}

at::Tensor spread_features(const at::Tensor& like_BTD, const at::Tensor& numbers, const at::Tensor& features) {
  const at::Tensor found = of_each_token(like_BTD, numbers, features);
  return found * numbers.gt(0).unsqueeze(-1).to(found.scalar_type());
}

}  // namespace easydel

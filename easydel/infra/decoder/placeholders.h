// Features of images in the place of tokens.
#pragma once

#include <ATen/core/Tensor.h>

namespace easydel {

// 0 for a token of text; else the number of its feature, from 1, in the order of the batch, behind `before` others.
at::Tensor number_placeholders(const at::Tensor& is_place, int64_t before = 0);

// [B, T, D] with the features [n, D] where `numbers` [B, T] is not 0.
at::Tensor put_features(const at::Tensor& embeds_BTD, const at::Tensor& numbers, const at::Tensor& features);
// The features alone: zeros elsewhere.
at::Tensor spread_features(const at::Tensor& like_BTD, const at::Tensor& numbers, const at::Tensor& features);

}  // namespace easydel

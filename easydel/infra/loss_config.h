// How a loss is computed, and what is known beside it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>

#include "easydel/core/json.h"

namespace easydel {

struct LossConfig {
  std::string loss_type = "cross_entropy";
  int64_t ignore_index = -100;
  double label_smoothing = 0.0;
  double z_loss_coefficient = 0.0;
  std::optional<double>
      auxiliary_loss_coefficient;            // of the routers' balance; absent: the config's router_aux_loss_coef
  bool shift_tokens = true;                  // a position predicts the next label; false: its own
  std::string reduction = "mean";            // over tokens; or "sum", "none"
  std::optional<double> num_items_in_batch;  // what "mean" divides by: the tokens of several batches
  int64_t chunk_size = 0;                    // tokens whose logits are held at once; 0: by the vocabulary's size
  std::optional<std::string> problem_type;   // of a classifier; absent: the config's, else by the labels

  // ConfigError names the key and what it may be.
  void validate() const;
  // A copy with some keys changed: loss_kwargs. ConfigError on an unknown key.
  LossConfig with(const Json& changes) const;
};

// Numbers without gradient; undefined where a loss has no such part.
struct LossMetrics {
  at::Tensor loss;
  at::Tensor z_loss;
  at::Tensor aux_loss;
  at::Tensor accuracy;
  at::Tensor num_tokens;  // that count in the loss
};

}  // namespace easydel

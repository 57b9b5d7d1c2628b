// How a loss is computed, and what is known beside it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "easydel/core/json/json.h"
#include "easydel/layers/tensor_map.h"

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
  at::Tensor weight_sum;  // what a mean is divided by: num_tokens, unless the config says another number
  // By update_metrics.
  std::optional<double> learning_rate = {};
  at::Tensor max_grad_norm;
  at::Tensor mean_grad_norm;
  std::map<std::string, at::Tensor> grad_norms = {};     // by path
  std::map<std::string, at::Tensor> other_metrics = {};  // a user's own
};

// What is known once gradients are: the norm of each of these tensors (on a mesh, of this rank's part), the largest and
// the mean of them, and the rate of the step.
void update_metrics(LossMetrics& metrics, const TensorMap& gradients, std::optional<double> learning_rate = {});

}  // namespace easydel

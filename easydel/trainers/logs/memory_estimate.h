// How much memory a training run will need on a device, by what is computed.
#pragma once

#include <cstdint>
#include <string>

#include "easydel/infra/base_module.h"
#include "easydel/optim/transformation.h"

namespace easydel {

struct MemoryEstimateOptions {
  int64_t tokens = 0;         // of a minibatch on one device, padding included
  bool accumulates = false;   // several minibatches in a step: gradients are there while activations are made
  int64_t chunk_size = 0;     // tokens whose logits are held at once; 0: as the loss chooses
  int64_t other_weights = 0;  // bytes of a reference or teacher
  optim::GradientTransformation tx = {};  // null: without an optimizer
};

// Bytes on one device. Rows have their full width, and every input of a layer is kept for backward,
// also where a frozen weight does not need it.
struct MemoryEstimate {
  int64_t weights = 0, gradients = 0, optimizer = 0, activations = 0;
  int64_t temporary = 0;  // logits and the head's gradient, or the gradients inside a layer, whichever is more
  bool accumulates = false;

  // At the end of forward, or at the end of backward, whichever is more.
  int64_t peak() const;
  // "24.1 GiB: 2.3 weights, 2.3 gradients, 4.6 optimizer, 18.5 activations, 1.9 temporary"
  std::string to_string() const;
};

int64_t bytes_of_gib(double gib);

// The model's weights need not be there. What its checkpointing policy recomputes does not count.
MemoryEstimate estimate_memory(const BaseModule& model, const MemoryEstimateOptions& options);

}  // namespace easydel

// Positions as sines and cosines: a table that files hold and nobody trains.
#pragma once

#include "easydel/layers/embedding.h"

namespace easydel {

// Whisper's: the sines of all frequencies, then their cosines. `features` is even and at least 4.
at::Tensor sinusoids(int64_t positions, int64_t features);

class SinusoidalPositions : public Embedding {
 public:
  SinusoidalPositions(int64_t positions, int64_t features);
  // Computes the table where no file has given it yet, in place of drawing it.
  void fill(at::TensorOptions options);
  std::string type_name() const override { return "Embedding"; }
};

}  // namespace easydel

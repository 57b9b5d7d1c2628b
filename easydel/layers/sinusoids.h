// Sinusoidal position embeddings: a table that files hold and that is not trained.
#pragma once

#include "easydel/layers/computed_weights.h"
#include "easydel/layers/embedding.h"

namespace easydel {

// The sines of all frequencies, then their cosines. The slowest frequency is 1 / 10000, as Whisper has it, or would be
// the next one, as Pegasus has it. `features` is even and at least 4.
enum class SlowestFrequency { Last, Next };
at::Tensor sinusoids(int64_t positions, int64_t features, SlowestFrequency slowest = SlowestFrequency::Last);

class SinusoidalPositions : public Embedding, public ComputedWeights {
 public:
  SinusoidalPositions(int64_t positions, int64_t features, SlowestFrequency slowest = SlowestFrequency::Last);
  void fill(at::TensorOptions options) override;
  std::string type_name() const override { return "Embedding"; }

 private:
  SlowestFrequency slowest_;
};

}  // namespace easydel

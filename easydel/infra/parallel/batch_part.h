// A rank's part of a batch, and the whole again from the parts.
#pragma once

#include "easydel/infra/files/model_io.h"
#include "easydel/sharding/parallel.h"

namespace easydel {

class BaseModule;

// Rows are split over the batch axes and tokens over the sequence axes. What does not divide is filled up: with rows
// and tokens that nobody sees and that count in no loss. The mask stays that of the whole sequence. Targets are one for
// each token, or one or several for each row.
PreparedInputs take_part(PreparedInputs prepared, const Parallel& parallel, bool targets_by_token);
// The same for a model of images: rows are images. NotSupportedError where ranks would share their patches.
PreparedInputs take_images(PreparedInputs prepared, const Parallel& parallel);

// [rows, tokens, ...] of every rank to that of the batch as it was given. Gradients flow back to the parts.
at::Tensor gather_tokens(const at::Tensor& part, const BatchPart& place, const Parallel& parallel);
// The same for [rows, ...].
at::Tensor gather_rows(const at::Tensor& part, const BatchPart& place, const Parallel& parallel);
// All outputs of a forward with `prepared` inputs; `given` is what the caller asked for.
ModelOutput gather_outputs(const BaseModule& model, ModelOutput out, const PreparedInputs& prepared,
                           const ModelInputs& given);

}  // namespace easydel

#include "easydel/operations/loss/loss.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "easydel/operations/kernels/cpu/rows.h"
#include "easydel/operations/loss/rows.h"

namespace easydel::operations {
namespace {

using at::Tensor;
using loss_rows::Problem;
using loss_rows::ProblemPtr;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Saves the input logits and recomputes the softmax in backward: cheaper than storing it.
struct CrossEntropy : torch::autograd::Function<CrossEntropy> {
  static variable_list forward(AutogradContext* ctx, const Tensor& logits, const ProblemPtr& problem,
                               at::IntArrayRef label_shape) {
    ctx->save_for_backward({logits, problem->scale});
    const Tensor rows = logits.reshape({problem->rows, problem->vocabulary});
    problem->for_chunks([&](int64_t at, int64_t count) {
      problem->compute(at, rows.narrow(0, at, count).to(problem->acc, false, /*copy=*/true).contiguous());
    });
    const auto parts = problem->outputs(label_shape);
    ctx->mark_non_differentiable({parts[1], parts[2], parts[3], parts[4]});
    ctx->saved_data["problem"] = c10::IValue::make_capsule(problem);
    return parts;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    kernels::require_first_derivative("cross_entropy");
    const auto saved = ctx->get_saved_variables();
    const auto problem = c10::static_intrusive_pointer_cast<Problem>(ctx->saved_data["problem"].toCapsule());
    const Tensor& logits = saved[0];
    const Tensor rows = logits.reshape({problem->rows, problem->vocabulary});
    const Tensor scale = loss_rows::upstream_scale(saved[1], grads[0]);
    Tensor d_logits = at::empty({problem->rows, problem->vocabulary}, logits.options());
    problem->for_chunks([&](int64_t at, int64_t count) {
      Tensor target = d_logits.narrow(0, at, count);
      const bool in_place = logits.scalar_type() == problem->acc;
      const Tensor work =
          in_place ? target.copy_(rows.narrow(0, at, count)) : rows.narrow(0, at, count).to(problem->acc);
      problem->compute(at, work, scale.narrow(0, at, count));
      if (!in_place) target.copy_(work);
    });
    return {d_logits.view(logits.sizes()), Tensor(), Tensor()};
  }
};

}  // namespace

Tensor CrossEntropyOutput::accuracy() const {
  return num_correct.to(weight_sum.scalar_type()) / num_tokens.clamp_min(1);
}

CrossEntropyOutput cross_entropy(const Tensor& logits, const Tensor& labels, const CrossEntropyOptions& options) {
  require<ShapeError>(logits.dim() >= 1, "[cross_entropy] logits must have at least one dimension; got a scalar.");
  const auto problem = c10::make_intrusive<Problem>("cross_entropy", logits, labels, logits.size(-1), options);
  return loss_rows::to_output(CrossEntropy::apply(logits, problem, labels.sizes()));
}

Tensor shift_labels(const Tensor& labels, int64_t ignore_index, const Tensor& segment_ids) {
  require<ShapeError>(labels.dim() >= 1, "[shift_labels] labels must have at least one dimension; got a scalar.");
  const int64_t length = labels.size(-1);
  Tensor shifted = at::full(labels.sizes(), ignore_index, labels.options().dtype(at::kLong));
  if (length < 2) return shifted;
  shifted.narrow(-1, 0, length - 1).copy_(labels.narrow(-1, 1, length - 1));
  if (segment_ids.defined()) {
    require<ShapeError>(segment_ids.sizes() == labels.sizes(),
                        "[shift_labels] segment_ids must have the shape of labels ", labels.sizes(), "; got ",
                        segment_ids.sizes(), ".");
    const Tensor ends = segment_ids.narrow(-1, 0, length - 1).ne(segment_ids.narrow(-1, 1, length - 1));
    shifted.narrow(-1, 0, length - 1).masked_fill_(ends, ignore_index);
  }
  return shifted;
}

}  // namespace easydel::operations

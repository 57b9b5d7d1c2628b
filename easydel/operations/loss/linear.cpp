// Cross-entropy of hidden @ weight^T + bias, some tokens at a time.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/graph_task.h>

#include "easydel/core/memory.h"
#include "easydel/operations/kernels/cpu/rows.h"
#include "easydel/operations/kernels/cuda/fused.h"
#include "easydel/operations/linear/product.h"
#include "easydel/operations/loss/rows.h"

namespace easydel::operations {
namespace {

using at::Tensor;
using loss_rows::Problem;
using loss_rows::ProblemPtr;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The product of the output layer, in float32 or better, and its gradients, chunk by chunk.
class OutputLayer {
 public:
  OutputLayer(const Tensor& hidden, const Tensor& weight, const Tensor& bias, at::ScalarType acc,
              const WeightAccessPtr& access)
      : hidden_(hidden.reshape({-1, hidden.size(-1)})),
        weight_(gather(weight, hidden.scalar_type(), access)),
        bias_(bias.defined() ? bias.to(acc) : bias),
        acc_(acc),
        is_wide_(hidden.scalar_type() == acc) {}

  // The result is consumed before the next call.
  Tensor logits(int64_t at, int64_t count) {
    const Tensor rows = hidden_.narrow(0, at, count);
    Tensor out;
    if (has_own_kernel(rows)) {
      out = dense_product(rows, weight_);
    } else if (is_wide_ || hidden_.is_cpu()) {
      if (!memory_.defined()) memory_ = at::empty({count, weight_.size(0)}, hidden_.options().dtype(acc_));
      out = memory_.narrow(0, 0, count);
      multiply_into({{out, rows, weight_.t()}});
    } else {
      out = at::mm(rows, weight_.t(), acc_);
    }
    return bias_.defined() ? out.add_(bias_) : out;
  }

  void want_gradients(bool hidden, bool weight, bool bias) {
    if (hidden) d_hidden = at::empty(hidden_.sizes(), hidden_.options());
    wants_weight_ = weight;
    if (bias) d_bias = at::zeros({weight_.size(0)}, hidden_.options().dtype(acc_));
  }

  // Whether the gradient of logits gets memory of its own, since it has another type than they have.
  bool narrows_gradients() const { return !is_wide_ && !d_bias.defined(); }
  // That memory, for `count` rows from a row on, of which there are at most `most`.
  Tensor narrow_gradient(int64_t from, int64_t count, int64_t most) {
    if (!d_memory_.defined()) d_memory_ = at::empty({most, weight_.size(0)}, hidden_.options());
    return d_memory_.narrow(0, from, count);
  }

  void add_gradients(int64_t at, int64_t count, const Tensor& d_logits) {
    if (d_bias.defined()) d_bias.add_(d_logits.sum(0));
    const Tensor d = d_logits.to(hidden_.scalar_type());
    if (d_hidden.defined()) multiply_into({{d_hidden.narrow(0, at, count), d, weight_}});
    if (!wants_weight_) return;
    const Tensor rows = hidden_.narrow(0, at, count);
    const bool adds = d_weight.defined();
    if (hidden_.is_cpu() || is_wide_) {
      if (!adds) d_weight = at::empty({d.size(1), rows.size(1)}, rows.options().dtype(acc_));
      multiply_into({{d_weight, d.t(), rows, adds}});
    } else if (adds) {
      at::addmm_out(d_weight, d_weight, d.t(), rows, acc_);
    } else {
      d_weight = at::mm(d.t(), rows, acc_);
    }
  }

  Tensor d_hidden, d_weight, d_bias;  // d_weight, a sum over chunks, in acc

 private:
  Tensor hidden_, weight_, bias_, memory_, d_memory_;
  at::ScalarType acc_;
  bool is_wide_;
  bool wants_weight_ = false;
};

Tensor like(const Tensor& grad, const Tensor& input) { return grad.defined() ? grad.to(input.scalar_type()) : grad; }

// All chunks; with the rows' scale also their gradients. Where the gradient of logits takes half the memory of the
// logits, that of two chunks is multiplied at once: each product reads and writes the whole gradient of the weight.
void compute(Problem& problem, OutputLayer& layer, const Tensor& scale) {
  const int64_t most = std::min(2 * problem.chunk_rows(), problem.rows);
  int64_t first = 0;  // row whose gradient is not multiplied yet
  problem.for_chunks([&](int64_t at, int64_t count) {
    const Tensor logits = layer.logits(at, count);
    if (!scale.defined()) return problem.compute(at, logits);
    const Tensor rows_scale = scale.narrow(0, at, count);
    if (!layer.narrows_gradients() || !problem.writes_gradient(logits)) {
      problem.compute(at, logits, rows_scale);
      return layer.add_gradients(at, count, logits);
    }
    problem.compute(at, logits, rows_scale, layer.narrow_gradient(at - first, count, most));
    const int64_t end = at + count;
    if (end < problem.rows && end - first < most) return;
    layer.add_gradients(first, end - first, layer.narrow_gradient(0, end - first, most));
    first = end;
  });
}

struct Needs {
  bool hidden, weight, bias;
};

struct LinearCrossEntropy : torch::autograd::Function<LinearCrossEntropy> {
  static variable_list forward(AutogradContext* ctx, const Tensor& hidden, const Tensor& weight,
                               const std::optional<Tensor>& given_bias, const ProblemPtr& problem,
                               at::IntArrayRef label_shape, Needs needs) {
    const Tensor bias = given_bias.value_or(Tensor());
    // The gradient of a scalar loss is known up to a factor, so gradients are computed now, while the logits exist.
    const bool makes_gradients =
        problem->options.reduction != Reduction::None && (needs.hidden || needs.weight || needs.bias);
    const WeightAccessPtr& access = problem->options.weight_access;
    OutputLayer layer(hidden, weight, bias, problem->acc, access);
    if (makes_gradients) layer.want_gradients(needs.hidden, needs.weight, needs.bias);
    compute(*problem, layer, makes_gradients ? problem->scale : Tensor());
    if (makes_gradients) {
      ctx->save_for_backward({layer.d_hidden.defined() ? layer.d_hidden.view(hidden.sizes()) : Tensor(),
                              like(reduce(layer.d_weight, access), weight), like(layer.d_bias, bias)});
    } else {
      ctx->save_for_backward({hidden, weight, bias});
      ctx->saved_data["problem"] = c10::IValue::make_capsule(problem);
    }
    ctx->saved_data["made"] = makes_gradients;
    const auto parts = problem->outputs(label_shape);
    ctx->mark_non_differentiable({parts[1], parts[2], parts[3], parts[4]});
    return parts;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    kernels::require_first_derivative("linear_cross_entropy");
    auto saved = ctx->get_saved_variables();
    if (ctx->saved_data["made"].toBool()) {
      const Tensor& d_loss = grads[0];
      const bool is_one = d_loss.is_cpu() && d_loss.item<double>() == 1.0;
      const bool is_last = !torch::autograd::get_current_graph_task_keep_graph();  // nobody needs them after this
      const auto scaled = [&](const Tensor& grad) {
        if (is_one || !grad.defined()) return grad;
        if (!is_last || !cuda_fused::applies(grad) || !grad.is_contiguous() || d_loss.device() != grad.device())
          return grad * d_loss.to(grad.scalar_type());
        cuda_fused::scale(grad, d_loss);
        return grad;
      };
      return {scaled(saved[0]), scaled(saved[1]), scaled(saved[2]), Tensor(), Tensor(), Tensor()};
    }
    const Tensor &hidden = saved[0], &weight = saved[1], &bias = saved[2];
    const auto problem = c10::static_intrusive_pointer_cast<Problem>(ctx->saved_data["problem"].toCapsule());
    const Tensor scale = loss_rows::upstream_scale(problem->scale, grads[0]);
    const WeightAccessPtr& access = problem->options.weight_access;
    OutputLayer layer(hidden, weight, bias, problem->acc, access);
    layer.want_gradients(ctx->needs_input_grad(0), ctx->needs_input_grad(1),
                         bias.defined() && ctx->needs_input_grad(2));
    compute(*problem, layer, scale);
    return {layer.d_hidden.defined() ? layer.d_hidden.view(hidden.sizes()) : Tensor(),
            like(reduce(layer.d_weight, access), weight),
            like(layer.d_bias, bias),
            Tensor(),
            Tensor(),
            Tensor()};
  }
};

}  // namespace

namespace {

// Indices of the rows with a label, on the CPU, if leaving out the others pays: undefined otherwise. Labels on a GPU
// are not counted, which would wait for it.
Tensor rows_to_keep(const Tensor& hidden, const Tensor& labels, const CrossEntropyOptions& options) {
  const Tensor& weights = options.token_weights;
  const bool fits = hidden.sizes().slice(0, hidden.dim() - 1) == labels.sizes() &&
                    (!weights.defined() || weights.sizes() == labels.sizes());
  if (!labels.is_cpu() || !fits) return {};
  const Tensor kept = labels.reshape({-1}).ne(options.ignore_index).nonzero().squeeze(1);
  const int64_t rows = labels.numel(), count = kept.numel();
  return count == 0 || count > rows - rows / 16 - 1 ? Tensor() : kept;
}

}  // namespace

CrossEntropyOutput linear_cross_entropy(const Tensor& hidden, const Tensor& weight, const Tensor& bias,
                                        const Tensor& labels, const CrossEntropyOptions& options) {
  require<ShapeError>(
      hidden.dim() >= 1 && weight.dim() == 2 && (options.weight_access || weight.size(1) == hidden.size(-1)),
      "[linear_cross_entropy] weight must be [vocabulary, ", hidden.dim() ? hidden.size(-1) : 0, "] for hidden ",
      hidden.sizes(), "; got ", weight.sizes(), ".");
  require<ShapeError>(!bias.defined() || (bias.dim() == 1 && bias.size(0) == weight.size(0)) || options.weight_access,
                      "[linear_cross_entropy] bias must be [", weight.size(0), "]; got ",
                      bias.defined() ? bias.sizes() : at::IntArrayRef(), ".");
  const int64_t vocabulary = options.vocabulary > 0 ? options.vocabulary : weight.size(0);
  if (const Tensor kept = rows_to_keep(hidden, labels, options); kept.defined()) {
    CrossEntropyOptions some = options;
    const Tensor there = copy_to(kept, hidden.device());
    if (some.token_weights.defined())
      some.token_weights = some.token_weights.to(there.device()).reshape({-1}).index_select(0, there);
    CrossEntropyOutput out = linear_cross_entropy(hidden.reshape({-1, hidden.size(-1)}).index_select(0, there), weight,
                                                  bias, labels.reshape({-1}).index_select(0, kept), some);
    if (options.reduction == Reduction::None) {
      const auto whole = [&](const Tensor& rows) {
        return at::zeros({labels.numel()}, rows.options()).index_copy(0, there, rows).view(labels.sizes());
      };
      out.loss = whole(out.loss);
      out.z_loss = whole(out.z_loss);
    }
    return out;
  }
  const auto problem = c10::make_intrusive<Problem>("linear_cross_entropy", hidden, labels, vocabulary, options);
  const bool grad_mode = at::GradMode::is_enabled();
  const Needs needs{grad_mode && hidden.requires_grad(), grad_mode && weight.requires_grad(),
                    grad_mode && bias.defined() && bias.requires_grad()};
  return loss_rows::to_output(
      LinearCrossEntropy::apply(hidden, weight, kernels::as_optional(bias), problem, labels.sizes(), needs));
}

}  // namespace easydel::operations

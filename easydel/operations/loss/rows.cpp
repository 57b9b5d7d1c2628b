#include "easydel/operations/loss/rows.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "easydel/core/dtype.h"
#include "easydel/core/memory.h"
#include "easydel/operations/kernels/cpu/rows.h"
#include "easydel/operations/kernels/cuda/fused.h"
#include "easydel/operations/threading/parallel.h"

namespace easydel::operations::loss_rows {
namespace {

using at::Tensor;

void check(const char* name, const Tensor& x, const Tensor& labels, int64_t vocabulary, const CrossEntropyOptions& o) {
  require<ShapeError>(x.dim() >= 1 && x.sizes().slice(0, x.dim() - 1) == labels.sizes(), "[", name,
                      "] labels must have the shape of the input without its last dimension; got ", labels.sizes(),
                      " and ", x.sizes(), ".");
  require<ShapeError>(at::isIntegralType(labels.scalar_type(), false), "[", name, "] labels must be integers; got ",
                      labels.scalar_type(), ".");
  require<ShapeError>(!o.token_weights.defined() || o.token_weights.sizes() == labels.sizes(), "[", name,
                      "] token_weights must have the shape of labels ", labels.sizes(), "; got ",
                      o.token_weights.defined() ? o.token_weights.sizes() : at::IntArrayRef(), ".");
  require<ShapeError>(!o.divisor.defined() || o.divisor.numel() == 1, "[", name, "] divisor must be one number; got ",
                      o.divisor.defined() ? o.divisor.numel() : 0, ".");
  require<ConfigError>(o.label_smoothing >= 0.0 && o.label_smoothing < 1.0, "[", name,
                       "] label_smoothing must be in [0, 1); got ", o.label_smoothing, ".");
  require<ConfigError>(o.logit_softcap >= 0.0, "[", name, "] logit_softcap must not be negative; got ", o.logit_softcap,
                       ".");
  require<ConfigError>(o.chunk_size >= 0, "[", name, "] chunk_size must not be negative; got ", o.chunk_size, ".");
  if (!labels.is_cpu()) return;  // elsewhere the check would synchronize
  const Tensor outside = labels.ne(o.ignore_index).logical_and(labels.lt(0).logical_or(labels.ge(vocabulary)));
  if (outside.any().item<bool>()) {
    fail<ShapeError>("[", name, "] a label must be in [0, ", vocabulary, ") or ignore_index ", o.ignore_index, "; got ",
                     labels.masked_select(outside)[0].item<int64_t>(), ".");
  }
}

// The same as the kernel in torch's operations, for other devices.
void compute_composed(const Problem& p, int64_t at, const Tensor& logits, const Tensor& row_scale) {
  const CrossEntropyOptions& o = p.options;
  const int64_t rows = logits.size(0);
  const Tensor labels = p.labels.narrow(0, at, rows);
  const Tensor valid = labels.ne(o.ignore_index);
  const Tensor index = labels.masked_fill(valid.logical_not(), 0).unsqueeze(1);
  Tensor x = logits;
  if (o.logit_scale != 1.0) x.mul_(o.logit_scale);
  if (o.logit_softcap != 0.0) x.div_(o.logit_softcap).tanh_().mul_(o.logit_softcap);
  const Tensor lse = x.logsumexp(-1), picked = x.gather(1, index).squeeze(1);
  const Tensor nll = (1.0 - o.label_smoothing) * (lse - picked) + o.label_smoothing * (lse - x.mean(-1));
  p.nll.narrow(0, at, rows).copy_(nll.mul(valid));
  p.lse.narrow(0, at, rows).copy_(lse.mul(valid));
  p.correct.narrow(0, at, rows).copy_(picked.ge(x.amax(-1)).logical_and_(valid));
  if (!row_scale.defined()) return;

  const Tensor weight = row_scale.mul(valid);
  Tensor slope;
  if (o.logit_softcap != 0.0) slope = 1 - x.div(o.logit_softcap).square_();
  x.sub_(lse.unsqueeze(1)).exp_().mul_((weight * (1 + 2 * o.z_loss * lse)).unsqueeze(1));
  if (o.label_smoothing != 0.0) x.sub_((weight * (o.label_smoothing / static_cast<double>(p.vocabulary))).unsqueeze(1));
  x.scatter_add_(1, index, (weight * (o.label_smoothing - 1.0)).unsqueeze(1));
  if (slope.defined()) x.mul_(slope);
  if (o.logit_scale != 1.0) x.mul_(o.logit_scale);
}

// The same where each rank has the logits of a part of the vocabulary.
void compute_split(const Problem& p, int64_t at, const Tensor& logits, const Tensor& row_scale) {
  const CrossEntropyOptions& o = p.options;
  const VocabularySplit& split = *o.split;
  const int64_t rows = logits.size(0), width = logits.size(1);
  const Tensor labels = p.labels.narrow(0, at, rows);
  const Tensor valid = labels.ne(o.ignore_index);
  const Tensor place = labels - split.begin;
  const Tensor own = valid.logical_and(place.ge(0)).logical_and_(place.lt(width));
  const Tensor index = place.masked_fill(own.logical_not(), 0).unsqueeze(1);
  Tensor x = logits;
  if (o.logit_scale != 1.0) x.mul_(o.logit_scale);
  if (o.logit_softcap != 0.0) x.div_(o.logit_softcap).tanh_().mul_(o.logit_softcap);
  const Tensor maximum = width > 0 ? x.amax(-1) : at::full({rows}, -INFINITY, x.options());
  split.all_reduce(maximum, true);
  const Tensor picked = width > 0 ? x.gather(1, index).squeeze(1).mul(own) : at::zeros({rows}, x.options());
  const Tensor sums = at::stack({(x - maximum.unsqueeze(1)).exp_().sum(-1), picked, x.sum(-1)});
  split.all_reduce(sums, false);
  const Tensor lse = sums[0].log().add_(maximum), mean = sums[2] / static_cast<double>(p.vocabulary);
  const Tensor nll = (1.0 - o.label_smoothing) * (lse - sums[1]) + o.label_smoothing * (lse - mean);
  p.nll.narrow(0, at, rows).copy_(nll.mul(valid));
  p.lse.narrow(0, at, rows).copy_(lse.mul(valid));
  p.correct.narrow(0, at, rows).copy_(sums[1].ge(maximum).logical_and_(valid));
  if (!row_scale.defined() || width == 0) return;

  const Tensor weight = row_scale.mul(valid);
  Tensor slope;
  if (o.logit_softcap != 0.0) slope = 1 - x.div(o.logit_softcap).square_();
  x.sub_(lse.unsqueeze(1)).exp_().mul_((weight * (1 + 2 * o.z_loss * lse)).unsqueeze(1));
  if (o.label_smoothing != 0.0) x.sub_((weight * (o.label_smoothing / static_cast<double>(p.vocabulary))).unsqueeze(1));
  x.scatter_add_(1, index, (weight * own * (o.label_smoothing - 1.0)).unsqueeze(1));
  if (slope.defined()) x.mul_(slope);
  if (o.logit_scale != 1.0) x.mul_(o.logit_scale);
}

}  // namespace

Problem::Problem(const char* name, const Tensor& x, const Tensor& labels_in, int64_t vocabulary_in,
                 const CrossEntropyOptions& options_in)
    : options(options_in), rows(labels_in.numel()), vocabulary(vocabulary_in), acc(acc_type(x.scalar_type())) {
  check(name, x, labels_in, vocabulary, options);
  labels = copy_to(labels_in.reshape({-1}).to(at::kLong), x.device()).contiguous();
  const auto wide = x.options().dtype(acc).requires_grad(false);
  const Tensor valid = labels.ne(options.ignore_index);
  scale = valid.to(acc);
  if (options.token_weights.defined()) scale = scale * options.token_weights.detach().reshape({-1}).to(wide);
  num_tokens = valid.sum();
  weight_sum = scale.sum();
  if (options.reduction == Reduction::Mean) {
    const Tensor divisor = options.divisor.defined() ? options.divisor.detach().to(wide).reshape({}) : weight_sum;
    scale = scale / divisor.masked_fill(divisor == 0, 1.0);
  }
  nll = at::empty({rows}, wide);
  lse = at::empty({rows}, wide);
  correct = at::empty({rows}, wide.dtype(at::kByte));
}

int64_t Problem::chunk_rows() const {
  if (options.chunk_size > 0) return options.chunk_size;
  const bool is_cpu = labels.is_cpu();
  const int64_t elements = is_cpu ? int64_t{1} << 22 : int64_t{1} << 27;  // 16 MiB of float32 logits; 512 MiB on a GPU
  // The same for all ranks, whose parts of the vocabulary may differ in size.
  const int64_t width = options.split ? vocabulary / options.split->parts + 1 : vocabulary;
  const int64_t fitting = elements / std::max<int64_t>(1, width);
  if (is_cpu) return std::max<int64_t>(128, fitting);
  return std::max<int64_t>(1024, fitting / 256 * 256);  // whole tiles of a product
}

bool Problem::writes_gradient(const Tensor& x) const {
  return !options.split && acc == at::kFloat && cuda_fused::applies(x) && vocabulary > 0;
}

void Problem::compute(int64_t at, const Tensor& logits, const Tensor& row_scale, const Tensor& d_logits) {
  if (options.split) return compute_split(*this, at, logits, row_scale);
  if (cuda_fused::applies(logits) && acc == at::kFloat && logits.is_contiguous() && logits.size(1) > 0) {
    const auto rows_of = [&](const Tensor& t) { return t.narrow(0, at, logits.size(0)); };
    return cuda_fused::cross_entropy({logits, rows_of(labels), row_scale, rows_of(nll), rows_of(lse), rows_of(correct),
                                      options.ignore_index, options.label_smoothing, options.z_loss,
                                      options.logit_scale, options.logit_softcap, d_logits});
  }
  if (!logits.is_cpu()) return compute_composed(*this, at, logits, row_scale);
  const kernels::CrossEntropyArgs args{vocabulary,     options.ignore_index, options.label_smoothing,
                                       options.z_loss, options.logit_scale,  options.logit_softcap};
  const auto kernel = kernels::for_acc(acc).cross_entropy;
  const auto from = [at](const Tensor& t) { return static_cast<char*>(t.mutable_data_ptr()) + at * t.element_size(); };
  for_rows(logits.size(0), vocabulary, [&](int64_t begin, int64_t end) {
    kernel(args, logits.mutable_data_ptr(), labels.const_data_ptr<int64_t>() + at,
           row_scale.defined() ? row_scale.const_data_ptr() : nullptr, from(nll), from(lse),
           correct.mutable_data_ptr<uint8_t>() + at, begin, end);
  });
}

Tensor Problem::row_losses() const {
  const Tensor per_row = options.z_loss == 0.0 ? nll : nll + options.z_loss * lse.square();
  return scale * per_row;
}

std::vector<Tensor> Problem::outputs(at::IntArrayRef label_shape) const {
  Tensor loss = row_losses();
  Tensor z = options.z_loss == 0.0 ? at::zeros_like(scale) : scale * lse.square() * options.z_loss;
  if (options.reduction == Reduction::None) {
    loss = loss.view(label_shape);
    z = z.view(label_shape);
  } else {
    loss = loss.sum();
    z = z.sum();
  }
  return {loss, z, num_tokens, weight_sum, correct.sum(at::kLong)};
}

CrossEntropyOutput to_output(const std::vector<Tensor>& parts) {
  return {parts[0], parts[1], parts[2], parts[3], parts[4]};
}

Tensor upstream_scale(const Tensor& scale, const Tensor& d_loss) {
  return (scale * d_loss.reshape({-1}).to(scale.scalar_type())).contiguous();
}

}  // namespace easydel::operations::loss_rows

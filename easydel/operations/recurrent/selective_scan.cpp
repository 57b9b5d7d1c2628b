// Letters: B batch, T tokens, l tokens of a chunk, I channels, N state size.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "easydel/operations/recurrent/recurrences.h"
#include "easydel/operations/recurrent/runs.h"

namespace easydel::operations {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kScanChunk = 64;

// h[t] = a[t] h[t - 1] + b[t] along dimension 1, in place: b becomes h and a the product of the decays so far. Pairs of
// doubling distance are combined, so that long chunks take few operations and nothing can overflow.
void scan_(Tensor& a, Tensor& b) {
  const int64_t length = a.size(1);
  for (int64_t step = 1; step < length; step *= 2) {
    const int64_t rest = length - step;
    const Tensor decay = a.narrow(1, step, rest);
    b.narrow(1, step, rest).add_(decay * b.narrow(1, 0, rest));
    decay.copy_(decay * a.narrow(1, 0, rest));
  }
}

struct Chunk {
  Tensor x, dt, b, c;  // [B, l, I], [B, l, I], [B, l, N], [B, l, N]
  Tensor resets;       // [B, l]: the first tokens of documents; or undefined
};

struct Scan {
  Tensor x, dt, a, b, c;
  Tensor runs;  // [B, T]; or [0], since a function of autograd takes no undefined tensor

  int64_t chunks() const { return (x.size(1) + kScanChunk - 1) / kScanChunk; }
  Chunk chunk(int64_t i) const {
    const int64_t first = i * kScanChunk, length = std::min(kScanChunk, x.size(1) - first);
    const auto cut = [&](const Tensor& t) { return t.narrow(1, first, length); };
    Chunk out{cut(x), cut(dt), cut(b), cut(c), {}};
    if (runs.dim() != 2) return out;
    const Tensor before = first > 0 ? runs.narrow(1, first - 1, 1) : runs.narrow(1, 0, 1);
    out.resets = cut(runs).ne(at::cat({before, cut(runs).narrow(1, 0, length - 1)}, 1));
    return out;
  }
  // exp(dt A), [B, l, I, N]
  Tensor decays(const Chunk& part) const {
    Tensor decay = (part.dt.unsqueeze(3) * a).exp_();
    if (part.resets.defined()) decay.masked_fill_(part.resets.unsqueeze(2).unsqueeze(3), 0);
    return decay;
  }
  // The states after each token, [B, l, I, N], from the one before the first.
  Tensor states(const Chunk& part, Tensor decay, const Tensor& before) const {
    Tensor h = (part.dt * part.x).unsqueeze(3) * part.b.unsqueeze(2);
    decay = decay.clone();
    scan_(decay, h);
    return h.addcmul_(decay, before.unsqueeze(1));
  }
};

class SelectiveScan : public torch::autograd::Function<SelectiveScan> {
 public:
  static variable_list forward(AutogradContext* ctx, const Tensor& x, const Tensor& dt, const Tensor& a,
                               const Tensor& b, const Tensor& c, const Tensor& state, const Tensor& runs) {
    const Scan scan{x, dt, a, b, c, runs};
    Tensor h = state;
    std::vector<Tensor> outs, starts;
    for (int64_t i = 0; i < scan.chunks(); ++i) {
      const Chunk part = scan.chunk(i);
      starts.push_back(h);
      const Tensor states = scan.states(part, scan.decays(part), h);
      outs.push_back(at::matmul(states, part.c.unsqueeze(3)).squeeze(3));
      h = states.select(1, states.size(1) - 1).clone();
    }
    ctx->save_for_backward({x, dt, a, b, c, runs, at::stack(starts, 1)});
    return {at::cat(outs, 1), h};
  }

  static variable_list backward(AutogradContext* ctx, variable_list gradients) {
    const variable_list saved = ctx->get_saved_variables();
    const Scan scan{saved[0], saved[1], saved[2], saved[3], saved[4], saved[5]};
    const Tensor& starts = saved[6];
    Tensor grad_h = gradients[1].defined() ? gradients[1].clone() : at::zeros_like(starts.select(1, 0));
    Tensor grad_a = at::zeros_like(scan.a);
    const int64_t chunks = scan.chunks();
    std::vector<Tensor> grad_x(static_cast<std::size_t>(chunks)), grad_dt(grad_x), grad_b(grad_x), grad_c(grad_x);
    for (int64_t i = chunks - 1; i >= 0; --i) {
      const Chunk part = scan.chunk(i);
      const int64_t length = part.x.size(1), first = i * kScanChunk;
      const Tensor decay = scan.decays(part), start = starts.select(1, i);
      const Tensor states = scan.states(part, decay, start);
      const Tensor grad_y = gradients[0].defined() ? gradients[0].narrow(1, first, length) : at::zeros_like(part.x);
      const auto place = static_cast<std::size_t>(i);
      grad_c[place] = at::matmul(grad_y.unsqueeze(2), states).squeeze(2);
      // The gradient of each state, from the last to the first: what is read of it, and what the next makes of it.
      Tensor grad_states = grad_y.unsqueeze(3) * part.c.unsqueeze(2);
      grad_states.select(1, length - 1).add_(grad_h);
      Tensor back = at::cat({at::ones_like(decay.narrow(1, 0, 1)), decay.narrow(1, 1, length - 1).flip(1)}, 1);
      grad_states = grad_states.flip(1);
      scan_(back, grad_states);
      grad_states = grad_states.flip(1);
      grad_h = grad_states.select(1, 0) * decay.select(1, 0);
      const Tensor earlier = at::cat({start.unsqueeze(1), states.narrow(1, 0, length - 1)}, 1);
      const Tensor grad_exponent = grad_states * earlier * decay;                       // of dt A
      const Tensor of_input = at::matmul(grad_states, part.b.unsqueeze(3)).squeeze(3);  // of dt x
      grad_dt[place] = (grad_exponent * scan.a).sum(3) + of_input * part.x;
      grad_x[place] = of_input * part.dt;
      grad_b[place] = at::matmul((part.dt * part.x).unsqueeze(2), grad_states).squeeze(2);
      grad_a += (grad_exponent * part.dt.unsqueeze(3)).sum(at::IntArrayRef({0, 1}));
    }
    return {at::cat(grad_x, 1), at::cat(grad_dt, 1), grad_a, at::cat(grad_b, 1), at::cat(grad_c, 1), grad_h, Tensor()};
  }
};

}  // namespace

Recurred selective_scan(const Tensor& x, const Tensor& dt, const Tensor& a, const Tensor& b, const Tensor& c,
                        const Tensor& state, const Tensor& runs) {
  const at::ScalarType wide = at::promote_types(x.scalar_type(), at::kFloat);
  const Tensor before =
      state.defined() ? state.to(wide) : at::zeros({x.size(0), x.size(2), a.size(1)}, x.options().dtype(wide));
  const variable_list found =
      SelectiveScan::apply(x.to(wide), dt.to(wide), a.to(wide), b.to(wide), c.to(wide), before,
                           runs.defined() ? runs : at::empty({0}, x.options().dtype(at::kLong)));
  return {found[0], found[1]};
}

}  // namespace easydel::operations

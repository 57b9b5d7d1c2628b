#include "easydel/layers/attention/ring_attention.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

#include <cmath>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "easydel/core/error.h"
#include "easydel/operations/attention/blockwise.h"
#include "easydel/operations/attention/mechanisms.h"
#include "easydel/operations/checkpoint.h"
#include "easydel/operations/kernels/cpu/rows.h"

// A causal mask hides most of the sequence from the first members, so they wait for the last ones: such a step takes
// about as long as one without a mask. Giving each member early and late tokens would balance the load.
namespace easydel {
namespace {

using at::Tensor;
using operations::AttentionOptions;
using operations::blockwise::Backward;
using operations::blockwise::Forward;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Keys and values (or their gradients) of one member, in one contiguous buffer that can be sent.
struct KeysAndValues {
  Tensor flat, k, v;

  KeysAndValues(Tensor memory, at::IntArrayRef k_sizes, at::IntArrayRef v_sizes) : flat(std::move(memory)) {
    const int64_t k_count = c10::multiply_integers(k_sizes);
    k = flat.narrow(0, 0, k_count).view(k_sizes);
    v = flat.narrow(0, k_count, flat.numel() - k_count).view(v_sizes);
  }
  static KeysAndValues copy_of(const Tensor& k, const Tensor& v) {
    KeysAndValues copy(at::empty({k.numel() + v.numel()}, k.options()), k.sizes(), v.sizes());
    copy.k.copy_(k);
    copy.v.copy_(v);
    return copy;
  }
  KeysAndValues in(const Tensor& memory) const { return {memory, k.sizes(), v.sizes()}; }
};

// The schedule of one member. In step s it has the keys of the member s positions before it.
class Ring {
 public:
  Ring(const Tensor& q, const Tensor& v, const AttentionOptions& options, const Group& group)
      : options_(options),
        group_(group),
        batch_(q.size(0)),
        tokens_(q.size(1)),
        heads_(q.size(2)),
        has_work_(q.numel() > 0 && v.numel() > 0) {
    // Members stop together, after the last step in which any of them has visible keys: a window ends the ring early.
    for (int64_t step = 1; step < group.size(); ++step) {
      for (int64_t member = 0; member < group.size(); ++member) {
        if (sees(member, source(member, step))) steps_ = step + 1;
      }
    }
  }

  int64_t steps() const { return steps_; }
  bool computes(int64_t step) const { return has_work_ && sees(group_.rank(), source(group_.rank(), step)); }

  // The mask between this member's queries and the keys of this step. A sink does not belong to any block.
  AttentionOptions block_options(int64_t step) const {
    const int64_t q_at = group_.rank() * tokens_, k_at = source(group_.rank(), step) * tokens_;
    AttentionOptions block = options_;
    block.sinks.reset();
    block.mask = options_.mask.slice(total(), total(), q_at, tokens_, k_at, tokens_);
    if (block.bias.defined() && block.bias.size(2) != 1) block.bias = block.bias.narrow(2, q_at, tokens_);
    if (block.bias.defined() && block.bias.size(3) != 1) block.bias = block.bias.narrow(3, k_at, tokens_);
    if (options_.dropout_p > 0.0) {
      if (!block.dropout_region) block.dropout_region = Region{{batch_, heads_, total(), total()}, {0, 0, 0, 0}};
      block.dropout_region->offset[2] += q_at;
      block.dropout_region->offset[3] += k_at;
    }
    return block;
  }

  // In the last step a member has the data of the member this many positions before it.
  Tensor send_home(const Tensor& flat) const {
    const int64_t places = steps_ - 1, size = group_.size();
    if (places == 0) return flat;
    std::vector<int64_t> to(size, 0), from(size, 0);
    to[source(group_.rank(), places)] = from[(group_.rank() + places) % size] = flat.numel();
    return group_.all_to_all(flat, to, from);
  }

 private:
  int64_t total() const { return group_.size() * tokens_; }
  int64_t source(int64_t member, int64_t step) const { return (member + group_.size() - step) % group_.size(); }
  bool sees(int64_t member, int64_t source) const {
    const auto range = options_.mask.key_range(total(), total(), member * tokens_, tokens_);
    return range.begin < (source + 1) * tokens_ && source * tokens_ < range.end;
  }

  const AttentionOptions& options_;
  const Group& group_;
  int64_t batch_, tokens_, heads_, steps_ = 1;
  bool has_work_;
};

// exp(part - all) [B, T, N, 1] of log-sum-exps [B, N, T]: the weight of a part.
Tensor weight_of(const Tensor& part, const Tensor& all) {
  return at::exp(part - all.masked_fill(all == -kInfinity, 0.0)).transpose(1, 2).unsqueeze(-1);
}

void merge(Forward& all, const Forward& part) {
  const Tensor lse = at::logaddexp(all.lse, part.lse);
  all.out.mul_(weight_of(all.lse, lse)).addcmul_(part.out, weight_of(part.lse, lse));
  all.lse = lse;
}

Forward ring_forward(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options,
                     const Group& group) {
  const Ring ring(q, v, options, group);
  Forward all;
  KeysAndValues now = KeysAndValues::copy_of(k, v);
  for (int64_t step = 0; step < ring.steps(); ++step) {
    Tensor received;
    const bool is_last = step + 1 == ring.steps();
    const auto next = is_last ? nullptr : group.start_shift(now.flat, received);
    if (ring.computes(step)) {
      const Forward part = operations::blockwise::forward(q, now.k, now.v, ring.block_options(step),
                                                          operations::blockwise::OutType::Wide);
      if (all.out.defined()) {
        merge(all, part);
      } else {
        all = part;
      }
    }
    if (!next) continue;
    next->wait();
    now = now.in(received);
  }
  if (!all.out.defined()) all = operations::blockwise::nothing_seen(q, v.size(3));
  if (options.sinks.defined()) {
    const Tensor lse = at::logaddexp(all.lse, options.sinks.to(all.lse.scalar_type()).view({1, -1, 1}));
    all.out.mul_(weight_of(all.lse, lse));
    all.lse = lse;
  }
  all.out = all.out.to(q.scalar_type());
  return all;
}

// Sums of gradients follow their keys, one collective behind; each member adds its share.
Backward ring_backward(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options,
                       const Forward& forward, const Tensor& d_out, const Group& group) {
  const Ring ring(q, v, options, group);
  const auto acc = forward.lse.options();
  Backward d;
  d.d_q = at::zeros(q.sizes(), acc);
  if (options.sinks.defined()) {
    const Tensor delta = operations::blockwise::delta_of(forward, d_out);
    d.d_sinks = operations::blockwise::sinks_gradient(options, forward, delta);
  }
  KeysAndValues now = KeysAndValues::copy_of(k, v), sums = now.in(at::zeros(now.flat.sizes(), acc));
  std::unique_ptr<Pending> sums_on_their_way;
  Tensor received_sums;
  for (int64_t step = 0; step < ring.steps(); ++step) {
    Tensor received;
    const bool is_last = step + 1 == ring.steps();
    const auto next = is_last ? nullptr : group.start_shift(now.flat, received);
    Backward part;
    if (ring.computes(step)) {
      part = operations::blockwise::backward(q, now.k, now.v, ring.block_options(step), forward, d_out);
      d.d_q.add_(part.d_q);
    }
    if (sums_on_their_way) {
      sums_on_their_way->wait();
      sums = now.in(received_sums);
    }
    if (part.d_k.defined()) {
      sums.k.add_(part.d_k);
      sums.v.add_(part.d_v);
    }
    if (is_last) break;
    sums_on_their_way = group.start_shift(sums.flat, received_sums);
    next->wait();
    now = now.in(received);
  }
  sums = now.in(ring.send_home(sums.flat));
  d.d_k = sums.k;
  d.d_v = sums.v;
  return d;
}

struct Call : torch::CustomClassHolder {
  AttentionOptions options;
  const Group* group = nullptr;  // outlives backward, as a mesh's groups do
};

struct RingAttention : torch::autograd::Function<RingAttention> {
  static Tensor forward(AutogradContext* ctx, const Tensor& q, const Tensor& k, const Tensor& v,
                        const std::optional<Tensor>& sinks, const c10::intrusive_ptr<Call>& call) {
    const operations::TensorList made = operations::keep_dots("attn_output", [&]() -> operations::TensorList {
      const Forward result = ring_forward(q, k, v, call->options, *call->group);
      return {result.out, result.lse};
    });
    ctx->save_for_backward({q, k, v, sinks.value_or(Tensor()), made[0], made[1]});
    call->options.sinks.reset();  // saved as a variable
    ctx->saved_data["call"] = c10::IValue::make_capsule(call);
    return made[0];
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    operations::kernels::require_first_derivative("ring attention");
    const auto saved = ctx->get_saved_variables();
    const auto call = c10::static_intrusive_pointer_cast<Call>(ctx->saved_data["call"].toCapsule());
    AttentionOptions options = call->options;
    options.sinks = saved[3];
    const Backward d =
        ring_backward(saved[0], saved[1], saved[2], options, {saved[4], saved[5]}, grads[0], *call->group);
    const auto like = [](const Tensor& grad, const Tensor& input) {
      return grad.defined() ? grad.to(input.scalar_type()) : Tensor();
    };
    return {like(d.d_q, saved[0]), like(d.d_k, saved[1]), like(d.d_v, saved[2]), like(d.d_sinks, saved[3]), Tensor()};
  }
};

}  // namespace

Tensor ring_attention(const Tensor& q_in, const Tensor& k_in, const Tensor& v_in, const AttentionOptions& options,
                      const Group& group) {
  require<NotSupportedError>(!options.return_weights,
                             "[ring_attention] attention weights are not supported. Use \"vanilla\" without a "
                             "split sequence.");
  require<NotSupportedError>(
      !options.bias.defined() || !options.bias.requires_grad(),
      "[ring_attention] a gradient of the bias is not supported. Use \"vanilla\" without a split "
      "sequence.");
  const auto cast = [&](const Tensor& t) { return options.dtype ? t.to(*options.dtype) : t; };
  const Tensor q = cast(q_in), k = cast(k_in), v = cast(v_in);
  const int64_t total = q.dim() == 4 ? group.size() * q.size(1) : 0;
  if (q.dim() != 4 || q.size(2) > 0) operations::check_attention(q, k, v, options, total, total);
  require<ShapeError>(k.dim() == 4 && v.dim() == 4 && k.size(1) == q.size(1) && v.size(1) == q.size(1),
                      "[ring_attention] q, k and v must be of the same tokens; got ", q.sizes(), ", ", k.sizes(),
                      " and ", v.sizes(), ".");
  if (group.size() == 1 && q.size(2) > 0) {
    AttentionOptions alone = options;
    alone.mechanism = "blockwise";
    return operations::attention(q_in, k_in, v_in, alone).out;
  }
  auto call = c10::make_intrusive<Call>();
  call->options = options;
  call->group = &group;
  if (!options.scale) call->options.scale = 1.0 / std::sqrt(static_cast<double>(q.size(3)));
  return RingAttention::apply(q, k, v, operations::kernels::as_optional(options.sinks), call).to(q_in.scalar_type());
}

}  // namespace easydel

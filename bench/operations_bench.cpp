// Each fused operation against the same in torch's operations, in one run: time and the most memory held at once.
// usage: operations_bench [threads] [filter]
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "easydel/operations/activation.h"
#include "easydel/operations/attention/attention.h"
#include "easydel/operations/loss/loss.h"
#include "easydel/operations/moe/moe.h"
#include "easydel/operations/norm.h"
#include "easydel/operations/rope.h"

namespace {

using at::Tensor;
namespace ops = easydel::operations;
using Variables = std::vector<Tensor>;

class MemoryMeter : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void*, int64_t size, size_t, size_t, c10::Device) override {
    held_ += size;
    peak_ = std::max(peak_, held_);
  }
  bool memoryProfilingEnabled() const override { return true; }
  double peak_mib() const { return static_cast<double>(peak_) / (1 << 20); }

 private:
  int64_t held_ = 0, peak_ = 0;
};

struct Measurement {
  double forward_ms = 1e30, total_ms = 1e30, peak_mib = 0;
};

// The best of several runs; leaves' gradients are made from a fixed one of the output.
Measurement measure(const Variables& leaves, const std::function<Tensor()>& f, int at_least) {
  using Clock = std::chrono::steady_clock;
  Measurement best;
  const Tensor upstream = at::randn_like(f().detach());
  const auto ms = [](auto duration) { return std::chrono::duration<double, std::milli>(duration).count(); };
  double spent = 0;
  for (int run = 0; run < 50 && (run < at_least || spent < 1500); ++run) {
    auto meter = std::make_shared<MemoryMeter>();
    const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, meter);
    const auto start = Clock::now();
    const Tensor y = f();
    const auto middle = Clock::now();
    torch::autograd::grad({y}, leaves, {upstream});
    const auto end = Clock::now();
    best.forward_ms = std::min(best.forward_ms, ms(middle - start));
    best.total_ms = std::min(best.total_ms, ms(end - start));
    best.peak_mib = meter->peak_mib();
    spent += ms(end - start);
  }
  return best;
}

std::string filter;

void compare(const std::string& name, const Variables& leaves, const std::function<Tensor()>& composed,
             const std::function<Tensor()>& fused, int at_least = 5) {
  if (name.find(filter) == std::string::npos) return;
  const Measurement a = measure(leaves, composed, at_least), b = measure(leaves, fused, at_least);
  std::printf("%-46s %9.2f %9.2f %6.2f   %9.2f %9.2f %6.2f   %8.1f %8.1f %6.2f\n", name.c_str(), a.forward_ms,
              b.forward_ms, b.forward_ms / a.forward_ms, a.total_ms, b.total_ms, b.total_ms / a.total_ms, a.peak_mib,
              b.peak_mib, b.peak_mib / a.peak_mib);
  std::fflush(stdout);
}

Tensor leaf(at::IntArrayRef sizes, at::ScalarType type = at::kFloat, double scale = 1.0) {
  return (at::randn(sizes) * scale).to(type).requires_grad_();
}

constexpr int64_t B = 4, T = 512, D = 512, N = 8, K = 4, H = 64, I = 1536, V = 8192;

void norms() {
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    const Tensor x = leaf({B, T, D}, type), w = leaf({D}, type);
    compare(
        std::string("rms_norm ") + toString(type), {x, w},
        [=] {
          const Tensor wide = x.to(at::kFloat);
          return w * (wide * at::rsqrt(wide.square().mean(-1, true) + 1e-6)).to(x.scalar_type());
        },
        [=] { return ops::rms_norm(x, w); });
    compare(
        std::string("rms_norm, against at::rms_norm ") + toString(type), {x, w},
        [=] { return at::rms_norm(x, {D}, w, 1e-6); }, [=] { return ops::rms_norm(x, w); });
  }
}

void activations() {
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    const Tensor gate_up = leaf({B, T, 2 * I}, type);
    for (const char* name : {"silu", "gelu_pytorch_tanh"}) {
      const auto& act = ops::find_activation(name);
      compare(
          std::string("gated ") + name + " " + toString(type), {gate_up},
          [=, &act] {
            const auto halves = gate_up.chunk(2, -1);
            return act(halves[0]) * halves[1];
          },
          [=, &act] { return ops::gated_activation(gate_up, act); });
    }
  }
}

void rotary() {
  const auto table = ops::rope_table(ops::rope_frequencies({}, H, 2048), at::arange(T));
  const Tensor cos = at::cat({table.cos, table.cos}, -1).unsqueeze(2),
               sin = at::cat({table.sin, table.sin}, -1).unsqueeze(2);
  const Tensor q = leaf({B, T, N, H});
  compare(
      "apply_rotary Float", {q},
      [=] {
        const auto halves = q.chunk(2, -1);
        return q * cos + at::cat({-halves[1], halves[0]}, -1) * sin;
      },
      [=] { return ops::apply_rotary(q, table); });
}

void attention_with(const std::string& name, const ops::AttentionOptions& options, at::ScalarType type = at::kFloat,
                    int64_t length = T) {
  const Tensor q = leaf({B, length, N, H}, type), k = leaf({B, length, K, H}, type), v = leaf({B, length, K, H}, type);
  auto reference = options;
  reference.mechanism = options.softcap != 0.0 ? "vanilla" : "sdpa";
  compare(
      name + " against " + reference.mechanism, {q, k, v}, [=] { return ops::attention(q, k, v, reference).out; },
      [=] { return ops::attention(q, k, v, options).out; });
}

void attentions() {
  attention_with("attention causal", {});
  attention_with("attention causal 2048", {}, at::kFloat, 2048);
  attention_with("attention causal bf16", {}, at::kBFloat16);
  easydel::MaskInfo padded;
  padded.padding_mask = at::ones({B, T}, at::kLong);
  padded.padding_mask.narrow(0, 0, 1).narrow(1, 0, 100).zero_();
  attention_with("attention padded", {.mask = padded});
  easydel::MaskInfo window;
  window.sliding_window = 128;
  attention_with("attention window 128", {.mask = window});
  easydel::MaskInfo packed;
  packed.q_segment_ids = at::div(at::arange(T), 100, "floor").expand({B, T});
  attention_with("attention packed", {.mask = packed});
  attention_with("attention softcap", {.softcap = 50.0});
}

void long_attention() {
  constexpr int64_t kLength = 16384;
  const Tensor q = leaf({1, kLength, 1, H}), k = leaf({1, kLength, 1, H}), v = leaf({1, kLength, 1, H});
  const auto with = [=](const char* mechanism) {
    return [=] { return ops::attention(q, k, v, {.mechanism = mechanism}).out; };
  };
  compare("attention at 16k tokens against vanilla", {q, k, v}, with("vanilla"), with("blockwise"), 1);
}

void losses() {
  const Tensor hidden = leaf({B * T, D}), weight = leaf({V, D}, at::kFloat, 0.05);
  const Tensor labels = at::randint(V, {B * T}, at::kLong);
  compare(
      "linear_cross_entropy", {hidden, weight},
      [=] { return at::cross_entropy_loss(at::linear(hidden, weight), labels); },
      [=] { return ops::linear_cross_entropy(hidden, weight, {}, labels).loss; });
  const Tensor logits = leaf({B * T, V});
  compare(
      "cross_entropy", {logits}, [=] { return at::cross_entropy_loss(logits, labels); },
      [=] { return ops::cross_entropy(logits, labels).loss; });
}

void experts() {
  constexpr int64_t E = 8, k = 2;
  const Tensor x = leaf({B * T, D}), w1 = leaf({E, I, D}, at::kFloat, 0.05), w2 = leaf({E, D, I}, at::kFloat, 0.05);
  const auto routing = ops::route(at::randn({B * T, E}), {.top_k = k});
  compare(
      "experts", {x, w1, w2},
      [=] {
        Tensor y = at::zeros_like(x);
        for (int64_t e = 0; e < E; ++e) {
          const auto where = routing.experts.eq(e).nonzero_numpy();
          const Tensor h = at::silu(at::linear(x.index_select(0, where[0]), w1[e]));
          const Tensor out = at::linear(h, w2[e]) * routing.weights.index({where[0], where[1]}).unsqueeze(1);
          y = y.index_add(0, where[0], out);
        }
        return y;
      },
      [=] {
        const auto dispatch = ops::make_dispatch(routing.experts, E);
        const Tensor h = at::silu(ops::grouped_linear(ops::dispatch_rows(x, dispatch), w1, {}, dispatch));
        return ops::combine_rows(ops::grouped_linear(h, w2, {}, dispatch), routing.weights, dispatch);
      });
}

}  // namespace

int main(int argc, char** argv) {
  at::set_num_threads(argc > 1 ? std::atoi(argv[1]) : 2);
  filter = argc > 2 ? argv[2] : "";
  at::manual_seed(0);
  std::printf("%-46s %9s %9s %6s   %9s %9s %6s   %8s %8s %6s\n", "operation", "fwd ms", "fused", "ratio", "+bwd ms",
              "fused", "ratio", "peak MiB", "fused", "ratio");
  norms();
  activations();
  rotary();
  attentions();
  losses();
  experts();
  long_attention();
}

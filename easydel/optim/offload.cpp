#include "easydel/optim/offload.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <functional>

#include "easydel/core/build_info.h"
#include "easydel/core/error.h"

#if EASYDEL_HAS_CUDA
#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#endif

namespace easydel::optim {
namespace {

using Work = std::function<void()>;

#if EASYDEL_HAS_CUDA
// What comes and what goes, beside the current stream.
class Lanes {
 public:
  explicit Lanes(at::Device device) {
    if (!device.is_cuda()) return;
    guard_.emplace(device);
    in_ = c10::cuda::getStreamFromPool(false, device.index());
    out_ = c10::cuda::getStreamFromPool(false, device.index());
  }
  // The tensors that `work` makes on the way in may be used by the current stream after arrive().
  void bring(const Work& work) { on(in_, work); }
  void arrive(const std::vector<at::Tensor>& tensors) {
    if (!in_) return;
    at::cuda::CUDAEvent done;
    done.record(*in_);
    done.block(current());
    for (const at::Tensor& t : tensors) t.record_stream(current().unwrap());
  }
  // `work` copies them home after what the current stream has been asked for.
  void take_home(const std::vector<at::Tensor>& tensors, const Work& work) {
    if (out_) {
      at::cuda::CUDAEvent ready;
      ready.record(current());
      ready.block(*out_);
      for (const at::Tensor& t : tensors) t.record_stream(out_->unwrap());
    }
    on(out_, work);
  }
  void wait() {
    if (out_) out_->synchronize();
  }

 private:
  static c10::cuda::CUDAStream current() { return c10::cuda::getCurrentCUDAStream(); }
  static void on(const std::optional<c10::cuda::CUDAStream>& stream, const Work& work) {
    std::optional<c10::cuda::CUDAStreamGuard> guard;
    if (stream) guard.emplace(*stream);
    work();
  }
  std::optional<c10::cuda::CUDAGuard> guard_;
  std::optional<c10::cuda::CUDAStream> in_, out_;
};
#else
class Lanes {
 public:
  explicit Lanes(at::Device) {}
  void bring(const Work& work) { work(); }
  void arrive(const std::vector<at::Tensor>&) {}
  void take_home(const std::vector<at::Tensor>&, const Work& work) { work(); }
  void wait() {}
};
#endif

at::Tensor on_host(const at::Tensor& x, bool pinned) {
  const at::Tensor host = x.is_cpu() ? x : x.to(at::kCPU);
  return pinned && !host.is_pinned() ? host.pin_memory() : host;
}

class Offloaded final : public Transformation {
 public:
  Offloaded(GradientTransformation inner, int64_t part_bytes) : inner_(std::move(inner)), part_bytes_(part_bytes) {}

  OptState init(const TensorMap& params, const Placement& placement) const override {
    TensorMap host;
    bool pinned = false;
    for (const auto& [path, param] : params) {
      pinned |= param.is_cuda();
      host.set(path, param.is_cuda() ? at::empty_like(param, param.options().device(at::kCPU)) : param);
    }
    OptState state = inner_->init(host, placement);
    require<NotSupportedError>(state.children.empty(), "[optim] \"", state.kind,
                               "\" is made of several transformations, whose state cannot be offloaded. Use adamw, "
                               "adam or lion, or do not offload.");
    for (auto& [name, leaf] : state.leaves()) {
      if (!leaf->value.is_meta()) leaf->value = on_host(leaf->value, pinned);
    }
    return state;
  }

  void update(TensorMap& updates, OptState& state, const TensorMap& params, const Placement& placement) const override {
    TensorMap all = params;
    in_parts(all, updates, state, [&](TensorMap& part, TensorMap& gradients, OptState& own) {
      inner_->update(gradients, own, part, placement);
    });
  }
  void apply(TensorMap& params, TensorMap& gradients, OptState& state, const Placement& placement) const override {
    in_parts(params, gradients, state,
             [&](TensorMap& part, TensorMap& updates, OptState& own) { inner_->apply(part, updates, own, placement); });
  }

 private:
  struct Part {
    TensorMap params, gradients;
    OptState state;  // on the device
    std::vector<at::Tensor> tensors() const {
      std::vector<at::Tensor> all;
      for (const auto& [name, leaf] : state.leaves()) all.push_back(leaf->value);
      return all;
    }
  };

  template <class F>
  void in_parts(TensorMap& params, TensorMap& gradients, OptState& state, const F& step) const {
    const at::NoGradGuard no_grad;
    std::vector<Part> parts = divide(params, gradients, state);
    const at::Device device = params.empty() ? at::Device(at::kCPU) : params.begin()->second.device();
    for (auto& [name, leaf] : state.leaves()) leaf->value = on_host(leaf->value, device.is_cuda());
    Lanes lanes(device);
    const auto bring = [&](Part& part) {
      lanes.bring([&] {
        for (auto& [tree, leaves] : state.trees) {
          for (const auto& [path, param] : part.params) {
            const auto found = leaves.find(path);
            if (found == leaves.end()) continue;
            part.state.trees[tree][path] = {
                found->second.value.to(device, found->second.value.scalar_type(), /*non_blocking=*/true, /*copy=*/true),
                found->second.sharding};
          }
        }
      });
    };
    const OptState before{.kind = state.kind, .counts = state.counts, .scalars = state.scalars};
    if (!parts.empty()) bring(parts[0]);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      Part& part = parts[i];
      part.state.kind = before.kind, part.state.counts = before.counts, part.state.scalars = before.scalars;
      for (const auto& [tree, leaves] : state.trees) part.state.trees[tree];
      lanes.arrive(part.tensors());
      if (i + 1 < parts.size()) bring(parts[i + 1]);
      step(part.params, part.gradients, part.state);
      state.counts = part.state.counts, state.scalars = part.state.scalars;
      lanes.take_home(part.tensors(), [&] {
        for (auto& [tree, leaves] : part.state.trees) {
          for (auto& [path, leaf] : leaves) state.trees[tree].at(path).value.copy_(leaf.value, /*non_blocking=*/true);
        }
      });
      // An update may be another tensor in the map.
      for (const auto& [path, update] : part.gradients) gradients.set(path, update);
      part = {};
    }
    lanes.wait();
  }

  // At least one, so that steps are counted.
  std::vector<Part> divide(const TensorMap& params, const TensorMap& gradients, const OptState& state) const {
    std::vector<Part> parts(1);
    int64_t bytes = 0;
    for (const auto& [path, gradient] : gradients) {
      int64_t own = 0;
      for (const auto& [tree, leaves] : state.trees) {
        if (const auto found = leaves.find(path); found != leaves.end())
          own += static_cast<int64_t>(found->second.value.nbytes());
      }
      if (bytes > 0 && bytes + own > part_bytes_) {
        parts.emplace_back();
        bytes = 0;
      }
      bytes += own;
      if (const at::Tensor* param = params.find(path)) parts.back().params.set(path, *param);
      parts.back().gradients.set(path, gradient);
    }
    return parts;
  }

  GradientTransformation inner_;
  int64_t part_bytes_;
};

}  // namespace

GradientTransformation offloaded(GradientTransformation inner, int64_t part_bytes) {
  return std::make_shared<const Offloaded>(std::move(inner), part_bytes);
}

}  // namespace easydel::optim

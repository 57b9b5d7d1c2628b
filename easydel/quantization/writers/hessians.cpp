#include "easydel/quantization/writers/hessians.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "easydel/core/error.h"
#include "easydel/layers/linear.h"

namespace easydel::quantization {
namespace {

constexpr int64_t kHessianWindow = 512;

// Observes the inputs of a layer without changing them.
class MomentWatcher : public LinearAdapter {
 public:
  at::Tensor operator()(const at::Tensor& x, const at::Tensor& y) const override {
    const at::NoGradGuard no_grad;
    const at::Tensor rows = x.detach().reshape({-1, x.size(-1)}).to(at::kFloat);
    const at::Tensor product = rows.t().mm(rows);
    sum_ = sum_.defined() ? sum_.add_(product) : product;
    count_ += rows.size(0);
    return y;
  }
  at::Tensor merged(const at::Tensor& matrix) const override { return matrix; }
  at::Tensor mean() const { return sum_.defined() ? (sum_ / static_cast<double>(count_)).cpu() : at::Tensor(); }

 private:
  mutable at::Tensor sum_;
  mutable int64_t count_ = 0;
};

}  // namespace

Hessians layer_hessians(BaseModule& model, const std::vector<int64_t>& ids, int64_t max_tokens) {
  require<ConfigError>(!ids.empty() && max_tokens > 0, "[quantize] calibration needs at least one token.");
  require<ConfigError>(!model.parallel(),
                       "[quantize] gptq and awq calibrate on one device; load the model without a mesh.");
  std::map<std::string, std::pair<Linear*, std::shared_ptr<MomentWatcher>>> watched;
  for (const auto& [path, child] : model.named_modules()) {
    auto* linear = dynamic_cast<Linear*>(child);
    if (!linear || !linear->is_plain()) continue;
    const auto watcher = std::make_shared<MomentWatcher>();
    linear->set_adapter(watcher);
    watched.emplace(path, std::pair(linear, watcher));
  }
  const auto release = [&] {
    for (const auto& [path, each] : watched) each.first->set_adapter(nullptr);
  };
  try {
    const at::NoGradGuard no_grad;
    const auto count = std::min<int64_t>(static_cast<int64_t>(ids.size()), max_tokens);
    for (int64_t begin = 0; begin < count; begin += kHessianWindow) {
      const int64_t length = std::min(kHessianWindow, count - begin);
      ModelInputs inputs;
      inputs.input_ids = at::tensor(at::ArrayRef<int64_t>(ids.data() + begin, static_cast<std::size_t>(length)))
                             .view({1, length})
                             .to(model.options().device);
      model(inputs);
    }
  } catch (...) {
    release();
    throw;
  }
  release();
  Hessians found;
  for (const auto& [path, each] : watched) {
    if (const at::Tensor mean = each.second->mean(); mean.defined()) found.emplace(path, mean);
  }
  return found;
}

}  // namespace easydel::quantization

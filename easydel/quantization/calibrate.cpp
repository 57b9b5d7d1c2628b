#include "easydel/quantization/calibrate.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "easydel/core/error.h"
#include "easydel/quantization/pack.h"

namespace easydel {
namespace {

// Stands beside a layer, sees what it is given, and changes nothing.
class Watcher : public LinearAdapter {
 public:
  at::Tensor operator()(const at::Tensor& x, const at::Tensor& y) const override {
    const at::NoGradGuard no_grad;
    const at::Tensor rows = x.detach().reshape({-1, x.size(-1)}).to(at::kFloat);
    if (rows.size(0) == 0) return y;
    const at::Tensor size = rows.abs();
    const auto add = [](at::Tensor& sum, const at::Tensor& term) { sum = sum.defined() ? sum + term : term; };
    add(sum_, size.sum(0));
    add(squares_, rows.square().sum(0));
    const at::Tensor largest = std::get<0>(size.max(0));
    largest_ = largest_.defined() ? at::maximum(largest_, largest) : largest;
    count_ += rows.size(0);
    return y;
  }
  at::Tensor merged(const at::Tensor& matrix) const override { return matrix; }

  bool was_called() const { return count_ > 0; }
  quantization::ChannelStatistics statistics() const {
    const auto count = static_cast<double>(count_);
    return {(sum_ / count).cpu(), (squares_ / count).cpu(), largest_.cpu()};
  }

 private:
  mutable at::Tensor sum_, squares_, largest_;
  mutable int64_t count_ = 0;
};

}  // namespace

std::shared_ptr<const Calibration> calibrate(BaseModule& model, const std::vector<int64_t>& ids,
                                             const CalibrateOptions& options) {
  require<ConfigError>(!ids.empty() && options.window > 0 && options.max_tokens > 0,
                       "[calibrate] at least one token is needed, in windows of at least one.");
  require<NotSupportedError>(!model.parallel(), "[calibrate] works on one device. Calibrate first, and shard then.");
  struct Watched {
    std::string path;
    Linear* linear;
    std::shared_ptr<Watcher> watcher;
  };
  std::vector<Watched> watched;
  for (const auto& [path, child] : model.named_modules()) {
    auto* linear = dynamic_cast<Linear*>(child);
    if (!linear || !linear->is_plain()) continue;
    watched.push_back({path, linear, std::make_shared<Watcher>()});
    linear->set_adapter(watched.back().watcher);
  }
  const auto release = [&] {
    for (const Watched& each : watched) each.linear->set_adapter(nullptr);
  };
  try {
    const at::NoGradGuard no_grad;
    const auto count = std::min<int64_t>(static_cast<int64_t>(ids.size()), options.max_tokens);
    for (int64_t begin = 0; begin < count; begin += options.window) {
      const int64_t size = std::min(options.window, count - begin);
      const at::Tensor piece = at::tensor(at::ArrayRef<int64_t>(ids.data() + begin, static_cast<std::size_t>(size)));
      ModelInputs inputs;
      inputs.input_ids = piece.unsqueeze(0).to(model.options().device);
      model(inputs);
    }
  } catch (...) {
    release();
    throw;
  }
  release();
  auto found = std::make_shared<Calibration>();
  for (const Watched& each : watched) {
    if (each.watcher->was_called()) found->emplace(each.path, each.watcher->statistics());
  }
  return found;
}

std::map<std::string, std::shared_ptr<Parameter>> dense_weights(const BaseModule& model,
                                                                const std::vector<std::string>& layers) {
  std::map<std::string, std::shared_ptr<Parameter>> weights;
  for (const auto& [path, child] : const_cast<BaseModule&>(model).named_modules()) {
    if (std::find(layers.begin(), layers.end(), path) == layers.end()) continue;
    if (const auto* linear = dynamic_cast<const Linear*>(child)) weights.emplace(path, linear->weight());
    if (const auto* table = dynamic_cast<const Embedding*>(child)) weights.emplace(path, table->weight());
  }
  return weights;
}

std::vector<LayerError> layer_errors(const BaseModule& quantized,
                                     const std::map<std::string, std::shared_ptr<Parameter>>& dense) {
  const at::NoGradGuard no_grad;
  std::vector<LayerError> errors;
  for (const quantization::PackedLayer& layer : quantization::packed_layers(quantized)) {
    const auto known = dense.find(layer.path);
    if (known == dense.end()) continue;
    at::Tensor weight = known->second->whole().to(at::kFloat);
    if (layer.transposed) weight = weight.t();
    const double size = weight.norm().item<double>();
    const double off = (layer.matrix->dequantize(float32) - weight).norm().item<double>();
    errors.push_back({layer.path, size > 0 ? off / size : 0});
  }
  return errors;
}

}  // namespace easydel

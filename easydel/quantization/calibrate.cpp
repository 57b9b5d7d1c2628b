#include "easydel/quantization/calibrate.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "easydel/core/error.h"
#include "easydel/quantization/pack.h"
#include "easydel/sharding/parallel.h"

namespace easydel {
namespace {

// How many rows and tokens of the piece that is read now this rank has, those that fill it up left out.
struct Piece {
  int64_t rows = 0, tokens = 0;            // as they are split
  int64_t real_rows = 0, real_tokens = 0;  // the first ones of these
};

Piece piece_of(int64_t batch, int64_t length, const Parallel* parallel) {
  if (!parallel) return {batch, length, batch, length};
  const DeviceMesh& mesh = parallel->mesh();
  const auto take_share = [](int64_t size, int64_t parts, int64_t index, int64_t& own, int64_t& real) {
    own = (size + parts - 1) / parts;
    real = std::clamp<int64_t>(size - own * index, 0, own);
  };
  Piece piece;
  take_share(batch, mesh.size(parallel->batch()), mesh.index(parallel->batch()), piece.rows, piece.real_rows);
  take_share(length, mesh.size(parallel->sequence()), mesh.index(parallel->sequence()), piece.tokens,
             piece.real_tokens);
  return piece;
}

// Observes the inputs of a layer without changing them.
class Watcher : public LinearAdapter {
 public:
  explicit Watcher(const Piece& now) : now_(now) {}

  at::Tensor operator()(const at::Tensor& x, const at::Tensor& y) const override {
    const at::NoGradGuard no_grad;
    at::Tensor rows = x.detach().reshape({-1, x.size(-1)}).to(at::kFloat);
    if (rows.size(0) == now_.rows * now_.tokens)
      rows = rows.reshape({now_.rows, now_.tokens, x.size(-1)})
                 .narrow(0, 0, now_.real_rows)
                 .narrow(1, 0, now_.real_tokens)
                 .reshape({-1, x.size(-1)});
    called_ = true;
    const at::Tensor size = rows.abs();
    const auto add = [](at::Tensor& sum, const at::Tensor& term) { sum = sum.defined() ? sum + term : term; };
    add(sum_, size.sum(0));
    add(squares_, rows.square().sum(0));
    const at::Tensor largest = rows.size(0) > 0 ? std::get<0>(size.max(0)) : at::zeros_like(sum_);
    largest_ = largest_.defined() ? at::maximum(largest_, largest) : largest;
    count_ += rows.size(0);
    return y;
  }
  at::Tensor merged(const at::Tensor& matrix) const override { return matrix; }

  bool was_called() const { return called_; }

  // Over all tokens and all channels. On a mesh all ranks call this together, and have the same bits.
  quantization::ChannelStatistics statistics(const Linear& linear) const {
    at::Tensor sums = at::stack({sum_, squares_, at::full_like(sum_, static_cast<double>(count_))}).contiguous();
    at::Tensor largest = largest_.contiguous();
    if (const auto& parallel = linear.parallel()) {
      parallel->group(parallel->data()).all_reduce(sums);
      parallel->group(parallel->data()).all_reduce(largest, ReduceOp::Max);
      // Each rank puts in the channels that it computes with.
      const Slices& computed = linear.weight()->sharding()->computed();
      const Intervals own = computed[linear.options().transposed ? 0 : 1];
      const at::Tensor all = at::zeros({4, linear.in_features()}, sums.options());
      put(all, {{{0, 4}}, own}, at::cat({sums, largest.unsqueeze(0)}));
      if (const AxisNames& axes = parallel->axes(linear.in_dim().axis); !axes.empty())
        parallel->group(axes).all_reduce(all);
      parallel->everyone().broadcast(all, 0);
      sums = all.narrow(0, 0, 3);
      largest = all[3];
    }
    return {(sums[0] / sums[2]).cpu(), (sums[1] / sums[2]).cpu(), largest.cpu()};
  }

 private:
  const Piece& now_;
  mutable at::Tensor sum_, squares_, largest_;
  mutable int64_t count_ = 0;
  mutable bool called_ = false;
};

}  // namespace

std::shared_ptr<const Calibration> calibrate(BaseModule& model, const std::vector<int64_t>& ids,
                                             const CalibrateOptions& options) {
  require<ConfigError>(!ids.empty() && options.window > 0 && options.max_tokens > 0,
                       "[calibrate] at least one token is needed, in windows of at least one.");
  struct Watched {
    std::string path;
    Linear* linear;
    std::shared_ptr<Watcher> watcher;
  };
  std::vector<Watched> watched;
  Piece now;
  for (const auto& [path, child] : model.named_modules()) {
    auto* linear = dynamic_cast<Linear*>(child);
    if (!linear || !linear->is_plain()) continue;
    watched.push_back({path, linear, std::make_shared<Watcher>(now)});
    linear->set_adapter(watched.back().watcher);
  }
  const auto release = [&] {
    for (const Watched& each : watched) each.linear->set_adapter(nullptr);
  };
  const Parallel* parallel = model.parallel().get();
  const auto read = [&](int64_t begin, int64_t rows, int64_t length) {
    const at::Tensor piece =
        at::tensor(at::ArrayRef<int64_t>(ids.data() + begin, static_cast<std::size_t>(rows * length)));
    now = piece_of(rows, length, parallel);
    ModelInputs inputs;
    inputs.input_ids = piece.view({rows, length}).to(model.options().device);
    model(inputs);
  };
  try {
    const at::NoGradGuard no_grad;
    const auto count = std::min<int64_t>(static_cast<int64_t>(ids.size()), options.max_tokens);
    const int64_t rows = parallel ? parallel->mesh().size(parallel->batch()) : 1, window = options.window;
    int64_t begin = 0;
    for (; begin + rows * window <= count; begin += rows * window) read(begin, rows, window);
    for (; begin < count; begin += window) read(begin, 1, std::min(window, count - begin));
  } catch (...) {
    release();
    throw;
  }
  release();
  auto found = std::make_shared<Calibration>();
  for (const Watched& each : watched) {
    if (each.watcher->was_called()) found->emplace(each.path, each.watcher->statistics(*each.linear));
  }
  return found;
}

std::map<std::string, std::shared_ptr<Parameter>> dense_weights(const BaseModule& model,
                                                                const std::vector<std::string>& layers) {
  std::map<std::string, std::shared_ptr<Parameter>> weights;
  for (const auto& [path, child] : model.named_modules()) {
    if (std::find(layers.begin(), layers.end(), path) == layers.end()) continue;
    if (const auto* linear = dynamic_cast<const Linear*>(child)) weights.emplace(path, linear->weight());
    if (const auto* table = dynamic_cast<const Embedding*>(child)) weights.emplace(path, table->weight());
  }
  for (const quantization::ExpertStack& stack : quantization::expert_stacks(model)) {
    if (std::find(layers.begin(), layers.end(), stack.path) != layers.end())
      weights.emplace(stack.path, stack.stack->dense);
  }
  return weights;
}

std::vector<LayerError> layer_errors(const BaseModule& quantized,
                                     const std::map<std::string, std::shared_ptr<Parameter>>& dense) {
  const at::NoGradGuard no_grad;
  const auto relative = [](const at::Tensor& packed, const at::Tensor& weight) {
    const double size = weight.to(at::kFloat).norm().item<double>();
    return size > 0 ? (packed - weight.to(at::kFloat)).norm().item<double>() / size : 0.0;
  };
  std::vector<LayerError> errors;
  for (const quantization::PackedLayer& layer : quantization::packed_layers(quantized)) {
    const auto known = dense.find(layer.path);
    if (known == dense.end()) continue;
    const at::Tensor weight = known->second->whole();
    errors.push_back({layer.path, relative(layer.matrix->dequantize(float32), layer.transposed ? weight.t() : weight)});
  }
  for (const quantization::ExpertStack& stack : quantization::expert_stacks(quantized)) {
    const auto known = dense.find(stack.path);
    const auto packed = stack.packed();
    if (known == dense.end() || !packed) continue;
    const at::Tensor weight = known->second->whole();
    errors.push_back(
        {stack.path, relative(packed->dequantize(float32), packed->transposed() ? weight.transpose(1, 2) : weight)});
  }
  return errors;
}

}  // namespace easydel

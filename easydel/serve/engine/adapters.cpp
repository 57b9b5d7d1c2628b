#include "easydel/serve/engine/adapters.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <numeric>

#include "easydel/core/error.h"
#include "easydel/infra/base_module.h"
#include "easydel/layers/attention/latent_attention.h"
#include "easydel/layers/linear.h"
#include "easydel/lora/adapter_keys.h"
#include "easydel/lora/lora_linear.h"
#include "easydel/serve/engine/runner.h"
#include "easydel/sharding/collectives/collectives.h"
#include "easydel/sharding/weight_sharding.h"

namespace easydel::serve {
namespace {

constexpr int64_t kMaxTogether = 256;  // rows; with more of them products take longer than starting them
thread_local const AdapterScope* adapter_scope = nullptr;  // null: no row has an adapter

// Has no state of its own: several engines may share the map.
class MixedAdapter final : public LinearAdapter {
 public:
  explicit MixedAdapter(const Linear& base) : base_(base) {}

  bool is_active() const override { return adapter_scope && adapter_scope->concerns(base_); }

  // y is new: its rows are changed in place.
  at::Tensor operator()(const at::Tensor& x, const at::Tensor& y) const override {
    if (!adapter_scope) return y;
    const at::Tensor from = x.flatten(0, -2), to = y.flatten(0, -2);
    const int64_t rows = from.size(0);
    const bool together = !from.is_cpu() && rows <= kMaxTogether && adapter_scope->rows_of(rows).size() > 2;
    (together ? adapt_together : adapt_in_turn)(*adapter_scope, base_, from, to);
    return to.view_as(y);
  }

  at::Tensor merged(const at::Tensor& matrix) const override {
    require<NotSupportedError>(!is_active(), "[engine] the rows of this step have different matrices.");
    return matrix;
  }

 private:
  const Linear& base_;  // which owns this
};

// Maps of which the matrix is used, not the product: the same for all rows.
const Linear* absorbed_map(const Module& module) {
  const auto* latent = dynamic_cast<const LatentAttention*>(&module);
  return latent ? dynamic_cast<const Linear*>(latent->child("kv_b_proj")) : nullptr;
}

at::Tensor computed_part(const at::Tensor& whole, std::vector<Dim> dims, const Linear& linear, DType dtype,
                         at::Device device) {
  const at::Tensor on_device = whole.to(at::TensorOptions(dtype).device(device), /*non_blocking=*/false, /*copy=*/true);
  if (!linear.parallel()) return on_device.contiguous();
  const WeightSharding sharding(std::move(dims), PartitionSpec(), linear.parallel());
  return sharding.gather(sharding.part_of(on_device), dtype).contiguous();
}

// Of DoRA: the magnitude over the norm of each row of the sum.
at::Tensor row_factor_of(const AdapterWeights& own, const at::Tensor& a, const at::Tensor& b, at::Device device) {
  const Linear& linear = *own.linear;
  const DType dtype = a.scalar_type();
  const at::Tensor sum = base_matrix(linear, dtype) + own.scaling * at::mm(b, a);
  const Parallel* parallel = linear.parallel().get();
  const AxisNames& cut = parallel ? parallel->axes(linear.in_dim().axis) : AxisNames();
  const at::Tensor norm = cut.empty() ? at::linalg_vector_norm(sum, 2, at::IntArrayRef{1})
                                      : collectives::sum(sum.square().sum(1), parallel->group(cut)).sqrt();
  return computed_part(own.magnitude, {linear.out_dim()}, linear, dtype, device) / norm;
}

AdapterFactors place_on(const AdapterWeights& own, at::Device device) {
  const Linear& linear = *own.linear;
  const DType wide = at::promote_types(linear.dtype(), at::kFloat);
  const Dim rank(own.a.size(0));
  const at::Tensor a = computed_part(own.a, {rank, linear.in_dim()}, linear, wide, device);
  at::Tensor b = computed_part(own.b, {linear.out_dim(), rank}, linear, wide, device);
  AdapterFactors factors;
  if (own.magnitude.defined()) {
    const at::Tensor factor = row_factor_of(own, a, b, device);
    b = factor.unsqueeze(1) * b;
    factors.row_factor = factor.to(linear.dtype());
  }
  factors.a = a.to(linear.dtype());
  factors.b_t = (own.scaling * b).t().to(linear.dtype()).contiguous();
  return factors;
}

void add_rows(std::vector<AdapterScope::Rows>& rows, const ServedAdapter* adapter, int64_t begin, int64_t end) {
  if (!adapter || begin == end) return;
  if (!rows.empty() && rows.back().adapter == adapter && rows.back().end == begin) {
    rows.back().end = end;
  } else {
    rows.push_back({adapter, begin, end});
  }
}

}  // namespace

// On all maps at once, and when the engine is made: later another engine may be reading them.
AdapterTable::AdapterTable(BaseModule& model) : model_(model) {
  for (const auto& [path, module] : model.named_modules()) {
    auto* linear = dynamic_cast<Linear*>(module);
    if (linear && !linear->adapter()) linear->set_adapter(std::make_shared<const MixedAdapter>(*linear));
  }
}

std::vector<AdapterWeights> AdapterTable::read(const std::filesystem::path& directory) const {
  const at::NoGradGuard no_grad;
  const auto [config, source] = open_adapter(directory);
  const std::string where = directory.string();
  constexpr const char* kMerge = " Merge it into the model and serve that.";
  require<NotSupportedError>(!config.takes_from_base(), "[engine] the adapter in ", where,
                             " changes the weights of the base (\"init_lora_weights\"), which other requests use.",
                             kMerge);
  const AdapterTensors tensors = find_tensors(model_, config, *source);
  require<NotSupportedError>(tensors.saved.empty(), "[engine] the adapter in ", where, " replaces \"",
                             tensors.saved.empty() ? "" : tensors.saved.begin()->first,
                             "\" (\"modules_to_save\"), which other requests use.", kMerge);
  std::vector<const Linear*> absorbed;
  for (const auto& [path, module] : model_.named_modules()) absorbed.push_back(absorbed_map(*module));
  const auto layers = layers_of(model_);
  std::vector<AdapterWeights> all;
  for (const auto& [path, layer] : tensors.layers) {
    const Linear* linear = layers.at(path).linear;
    require<NotSupportedError>(linear != nullptr, "[engine] the adapter in ", where, " changes the embeddings \"", path,
                               "\", which is not supported for single requests.", kMerge);
    require<NotSupportedError>(std::find(absorbed.begin(), absorbed.end(), linear) == absorbed.end(),
                               "[engine] the adapter in ", where, " changes \"", path,
                               "\", which is part of the attention and the same for all requests.", kMerge);
    require<ConfigError>(dynamic_cast<const MixedAdapter*>(linear->adapter().get()), "[engine] \"", path,
                         "\" has an adapter of the model already, beside which requests cannot have others. Merge that "
                         "one with merge_lora_params before the engine is made.");
    const int64_t rank = source->info(layer.a).shape[0];
    all.push_back({linear, source->tensor(layer.a), source->tensor(layer.b),
                   layer.magnitude.empty() ? at::Tensor() : source->tensor(layer.magnitude),
                   config.scaling_of(layer.torch_path, rank)});
  }
  return all;
}

ServedAdapter AdapterTable::place(const std::vector<AdapterWeights>& weights) const {
  const at::NoGradGuard no_grad;
  ServedAdapter adapter;
  for (const AdapterWeights& own : weights) adapter.emplace(own.linear, place_on(own, model_.options().device));
  return adapter;
}

int64_t AdapterTable::add(ServedAdapter adapter) {
  auto added = std::make_unique<const ServedAdapter>(std::move(adapter));
  const auto free = std::find(adapters_.begin(), adapters_.end(), nullptr);
  const int64_t index = free - adapters_.begin();
  if (free == adapters_.end()) {
    adapters_.push_back(std::move(added));
  } else {
    *free = std::move(added);
  }
  return index;
}

void AdapterTable::remove(int64_t index) { adapters_.at(static_cast<std::size_t>(index)).reset(); }

const ServedAdapter* AdapterTable::find(int64_t index) const {
  return index < 0 ? nullptr : adapters_.at(static_cast<std::size_t>(index)).get();
}

AdapterScope::AdapterScope(const AdapterTable& table, const StepInputs& inputs)
    : tokens_(static_cast<int64_t>(inputs.tokens.size())),
      places_(static_cast<int64_t>(inputs.logit_places.size())),
      before_(adapter_scope) {
  int64_t token = 0, place = 0;
  for (std::size_t i = 0; i < inputs.parts.size(); ++i) {
    const ServedAdapter* adapter = table.find(inputs.adapters[i]);
    const int64_t end = token + inputs.parts[i].tokens, first = place;
    while (place < places_ && inputs.logit_places[static_cast<std::size_t>(place)] < end) ++place;
    add_rows(of_tokens_, adapter, token, end);
    add_rows(of_places_, adapter, first, place);
    token = end;
  }
  adapter_scope = of_tokens_.empty() ? nullptr : this;
}

AdapterScope::~AdapterScope() { adapter_scope = before_; }

const std::vector<AdapterScope::Rows>& AdapterScope::rows_of(int64_t count) const {
  if (count == tokens_) return of_tokens_;
  require<Error>(count == places_, "[engine] a map has ", count, " rows; the step has ", tokens_, " tokens.");
  return of_places_;
}

bool AdapterScope::concerns(const Linear& linear) const {
  return std::any_of(of_tokens_.begin(), of_tokens_.end(),
                     [&](const Rows& rows) { return rows.adapter->contains(&linear); });
}

const at::Tensor& AdapterScope::foreign_columns(int64_t count, const std::vector<int64_t>& widths,
                                                at::Device device) const {
  at::Tensor& foreign = foreign_[{count, widths}];  // the same for most maps
  if (foreign.defined()) return foreign;
  foreign = at::ones({count, std::accumulate(widths.begin(), widths.end(), int64_t{0})},
                     at::TensorOptions(at::kBool).device(device));
  int64_t column = 0;
  const std::vector<Rows>& rows = rows_of(count);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    foreign.slice(0, rows[i].begin, rows[i].end).narrow(1, column, widths[i]).fill_(false);
    column += widths[i];
  }
  return foreign;
}

void adapt_in_turn(const AdapterScope& scope, const Linear& linear, const at::Tensor& x, const at::Tensor& y) {
  const DType dtype = y.scalar_type();
  for (const auto& [adapter, begin, end] : scope.rows_of(x.size(0))) {
    const auto found = adapter->find(&linear);
    if (found == adapter->end()) continue;
    const auto& [a, b_t, row_factor] = found->second;
    const at::Tensor rows = y.slice(0, begin, end);
    if (row_factor.defined()) rows.mul_(row_factor.to(dtype));
    rows.addmm_(at::linear(x.slice(0, begin, end), a.to(dtype)), b_t.to(dtype));
  }
}

void adapt_together(const AdapterScope& scope, const Linear& linear, const at::Tensor& x, const at::Tensor& y) {
  const DType dtype = y.scalar_type();
  std::vector<at::Tensor> all_a, all_b;
  std::vector<int64_t> widths;
  for (const auto& [adapter, begin, end] : scope.rows_of(x.size(0))) {
    const auto found = adapter->find(&linear);
    widths.push_back(found == adapter->end() ? 0 : found->second.a.size(0));
    if (found == adapter->end()) continue;
    const auto& [a, b_t, row_factor] = found->second;
    if (row_factor.defined()) y.slice(0, begin, end).mul_(row_factor.to(dtype));
    all_a.push_back(a.to(dtype));
    all_b.push_back(b_t.to(dtype));
  }
  if (all_a.empty()) return;
  at::Tensor low = at::linear(x, at::cat(all_a));
  low.masked_fill_(scope.foreign_columns(x.size(0), widths, x.device()), 0);
  y.addmm_(low, at::cat(all_b));
}

}  // namespace easydel::serve

#include "easydel/lora/lora_layer.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "easydel/core/error.h"
#include "easydel/quantization/packed_matrix.h"
#include "easydel/quantization/quantize.h"

namespace easydel {

std::shared_ptr<const quantization::PackedMatrix> LoraLayer::packed() const {
  return quantization::packed_matrix(module());
}

std::map<std::string, LoraLayer> layers_of(const BaseModule& module) {
  std::map<std::string, LoraLayer> found;
  for (const auto& [path, child] : module.named_modules()) {
    const LoraLayer layer{dynamic_cast<const Linear*>(child), dynamic_cast<const Embedding*>(child)};
    if (layer.linear || layer.table) found.emplace(path, layer);
  }
  return found;
}

void split_base(const LoraLayer& layer, const std::string& path, const LoraWeights& weights, double scaling,
                LoraInit init) {
  const at::NoGradGuard no_grad;
  const char* name = init == LoraInit::Pissa ? "PiSSA" : "OLoRA";
  require<NotSupportedError>(
      layer.linear && !layer.linear->packed(), "[apply_lora_to_layers] ", name, " changes the base weight, and \"",
      path, "\" is quantized or an embedding table. Apply it to the dense model, merge, and then quantize.");
  Parameter& weight = *layer.weight();
  const at::Tensor stored = weight.whole();
  at::Tensor matrix = stored.to(at::promote_types(stored.scalar_type(), at::kFloat));
  if (layer.is_transposed()) matrix = matrix.t();
  const int64_t rank = weights.a->shape[0], most = std::min(matrix.size(0), matrix.size(1));
  require<ConfigError>(rank <= most, "[apply_lora_to_layers] the rank of ", name, " is at most ", most, " for \"", path,
                       "\"; got ", rank, ".");
  at::Tensor a, b;
  if (init == LoraInit::Pissa) {
    const auto [u, s, vh] = at::linalg_svd(matrix, /*full_matrices=*/false);
    const at::Tensor root = (s.narrow(0, 0, rank) / scaling).sqrt();
    a = root.unsqueeze(1) * vh.narrow(0, 0, rank);
    b = u.narrow(1, 0, rank) * root;
  } else {
    const auto [q, r] = at::linalg_qr(matrix);
    a = r.narrow(0, 0, rank);
    b = q.narrow(1, 0, rank);
  }
  const at::Tensor rest = matrix - scaling * at::mm(b, a);
  const auto bind = [](Parameter& parameter, const at::Tensor& whole, at::ScalarType dtype) {
    const auto& sharding = parameter.sharding();
    const at::Tensor part = sharding && !sharding->is_whole() ? sharding->part_of(whole) : whole;
    parameter.bind(part.to(dtype).clone(at::MemoryFormat::Contiguous));
  };
  bind(*weights.a, a, weights.a->value().scalar_type());
  bind(*weights.b, b, weights.b->value().scalar_type());
  bind(weight, layer.is_transposed() ? rest.t() : rest, stored.scalar_type());
}

}  // namespace easydel

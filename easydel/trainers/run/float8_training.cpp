#include "easydel/trainers/run/float8_training.h"

#include "easydel/core/error.h"
#include "easydel/layers/float8_weight.h"
#include "easydel/layers/forward_context.h"
#include "easydel/layers/moe/moe.h"
#include "easydel/lora/lora.h"
#include "easydel/quantization/quantize.h"

namespace easydel {
namespace {

template <class F>
void for_linears(Module& module, bool inside_layer, const F& f) {
  inside_layer |= dynamic_cast<DecoderLayer*>(&module) != nullptr;
  const bool has_router = dynamic_cast<SparseMoE*>(&module) != nullptr;
  for (const auto& [name, child] : module.children()) {
    if (auto* linear = dynamic_cast<Linear*>(child.get())) {
      if (inside_layer) f(*linear, has_router);
    } else {
      for_linears(*child, inside_layer, f);
    }
  }
}

class Float8Transform final : public ModuleTransform {
 public:
  explicit Float8Transform(operations::Float8Scales scales) : scales_(scales) {}
  void apply(BaseModule& model) const override {
    for_linears(model, false, [&](Linear& linear, bool is_router) {
      if (!is_router && Float8Weight::fits(linear))
        linear.set_packed(std::make_shared<const Float8Weight>(linear, scales_), linear.weight());
    });
  }

 private:
  operations::Float8Scales scales_;
};

}  // namespace

Float8Layers train_in_float8(BaseModule& model, operations::Float8Scales scales) {
  operations::require_float8(model.options().device, scales);
  require<ConfigError>(adapter_names(model).empty(),
                       "[float8] float8 is for the model's own weights, not for adapters. Train "
                       "without fp8, or without adapters.");
  require<ConfigError>(!is_quantized(model),
                       "[float8] the model's weights are already quantized. Load the "
                       "model without quantization, or train without fp8.");
  Float8Layers layers;
  for_linears(model, false, [&](Linear& linear, bool is_router) {
    ++(!is_router && Float8Weight::fits(linear) ? layers.converted : layers.left);
  });
  require<ConfigError>(layers.converted > 0, "[float8] no linear layer of ", model.type_name(),
                       " can use float8 products: both of its sizes must be multiples of ", operations::kFloat8Multiple,
                       " on each rank. Train without fp8.");
  model.transform(std::make_shared<const Float8Transform>(scales));
  return layers;
}

}  // namespace easydel

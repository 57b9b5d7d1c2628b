// The one place that knows all folders: it gives infra the functions of those above it.
#include "easydel/generation/generate.h"
#include "easydel/generation/inputs.h"
#include "easydel/infra/hooks.h"
#include "easydel/lora/lora.h"
#include "easydel/models/register_models.h"
#include "easydel/quantization/pack.h"
#include "easydel/quantization/quantize.h"

// A program that links the static library names this symbol, so that the linker keeps this file; see CMakeLists.txt.
// The priority puts it before static objects, which may register models or load some.
extern "C" [[gnu::constructor(101)]] void easydel_wire_hooks() {
  using namespace easydel;
  set_hooks({
      .generate = generate,
      .generation_config = generation_config,
      .set_generation_config = set_generation_config,
      .prepare_inputs_for_generation = prepare_inputs_for_generation,
      .update_inputs_for_generation = update_inputs_for_generation,
      .quantize = [](BaseModule& model,
                     const QuantizeOptions* options) { quantize(model, options ? *options : QuantizeOptions()); },
      .is_quantized = is_quantized,
      .packing_at_load = packing_at_load,
      .apply_lora =
          [](BaseModule& model, int64_t rank, double alpha, const std::string& pattern, const LoraOptions* options) {
            apply_lora(model, rank, alpha, pattern, options ? *options : LoraOptions());
          },
      .lora_is_enabled = lora_is_enabled,
      .split_lora_params = split_lora_params,
      .merge_lora = merge_lora_params,
      .merge_lora_params = merge_lora_params,
      .unwrap_lora = unwrap_lora,
      .register_models = register_models,
  });
}

// The models of this library; one line for each family.
#include "easydel/infra/registry.h"

#include "easydel/models/gpt2/config.h"
#include "easydel/models/llama/config.h"
#include "easydel/models/mixtral/config.h"
#include "easydel/models/phi3/config.h"

namespace easydel {

void register_models(Registry& registry) {
  registry.register_config<GPT2Config>();
  registry.register_config<LlamaConfig>();
  registry.register_config<MixtralConfig>();
  registry.register_config<Phi3Config>();
}

}  // namespace easydel

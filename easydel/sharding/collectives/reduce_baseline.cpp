#include "easydel/sharding/collectives/reduce_kernels.h"

namespace easydel {

const ReduceTable reduce_table_baseline = {kFunctions<float>, kFunctions<double>, kFunctions<bf16>, kFunctions<f16>};

}  // namespace easydel

#include "easydel/sharding/collectives/reduce.h"

#include <c10/util/Float8_e4m3fn.h>
#include <c10/util/Float8_e5m2.h>

#include "easydel/core/cpu.h"
#include "easydel/core/dtype.h"
#include "easydel/core/error.h"
#include "easydel/sharding/collectives/reduce_kernels.h"

namespace easydel {
namespace {

template <class T>
struct Small {  // an 8-bit float
  T value;
};

template <class T>
float widen(Small<T> small) {
  return static_cast<float>(small.value);
}
template <class T>
void narrow(float value, Small<T>& out) {
  out.value = T(value);
}

const ReduceTable& table() {
#ifdef EASYDEL_REDUCE_AVX2
  static const bool has_avx2 = use_cpu_kind(CpuKind::kAvx2);
  if (has_avx2) return reduce_table_avx2;
#endif
  return reduce_table_baseline;
}

const ReduceFunctions* functions(at::ScalarType dtype) {
  switch (dtype) {
    case at::kFloat: return &table().float32;
    case at::kDouble: return &table().float64;
    case at::kBFloat16: return &table().bfloat16;
    case at::kHalf: return &table().float16;
    case at::kFloat8_e4m3fn: return &kFunctions<Small<c10::Float8_e4m3fn>>;
    case at::kFloat8_e5m2: return &kFunctions<Small<c10::Float8_e5m2>>;
    case at::kLong: return &kFunctions<int64_t>;
    case at::kInt: return &kFunctions<int32_t>;
    case at::kShort: return &kFunctions<int16_t>;
    case at::kChar: return &kFunctions<int8_t>;
    case at::kByte: return &kFunctions<uint8_t>;
    default: return nullptr;
  }
}

}  // namespace

bool can_reduce(at::ScalarType dtype) { return functions(dtype) != nullptr; }

void reduce(at::ScalarType dtype, ReduceOp op, std::span<const void* const> ins, std::span<void* const> outs,
            int64_t begin, int64_t end) {
  const ReduceFunctions* found = functions(dtype);
  require<NotSupportedError>(found != nullptr, "[reduce] a reduction needs a dtype with arithmetic; got ",
                             dtype_name(dtype), ".");
  const ReduceFunction function = op == ReduceOp::Sum ? found->sum : op == ReduceOp::Max ? found->max : found->min;
  function({ins, outs}, begin, end);
}

}  // namespace easydel

#include "easydel/operations/kernels/cpu/quantized_kernels.h"

namespace easydel::operations::kernels {

extern const QuantizedKernels quantized_baseline;
#ifdef EASYDEL_X86_KERNELS
extern const QuantizedKernels quantized_avx2;
extern const QuantizedKernels quantized_avx2_vnni;
extern const QuantizedKernels quantized_avx512;
extern const QuantizedKernels quantized_avx512_vnni;
#endif

QuantizedKernelList quantized_available() {
  QuantizedKernelList list{{&quantized_baseline}, 1};
#ifdef EASYDEL_X86_KERNELS
  const auto add = [&](const QuantizedKernels& table) { list.tables[list.count++] = &table; };
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("f16c")) return list;
  add(quantized_avx2);
  if (__builtin_cpu_supports("avxvnni")) add(quantized_avx2_vnni);
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
      !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl")) {
    return list;
  }
  add(quantized_avx512);
  if (__builtin_cpu_supports("avx512vnni")) add(quantized_avx512_vnni);
#endif
  return list;
}

const QuantizedKernels& quantized() {
  static const QuantizedKernels& fastest = []() -> const QuantizedKernels& {
    const QuantizedKernelList list = quantized_available();
    return *list.tables[list.count - 1];
  }();
  return fastest;
}

}  // namespace easydel::operations::kernels

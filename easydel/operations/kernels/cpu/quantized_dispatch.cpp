#include "easydel/core/cpu.h"
#include "easydel/operations/kernels/cpu/amx/tile_product.h"
#include "easydel/operations/kernels/cpu/quantized_kernels.h"

namespace easydel::operations::kernels {

extern const QuantizedKernels quantized_baseline;
#ifdef EASYDEL_X86_KERNELS
extern const QuantizedKernels quantized_avx2;
extern const QuantizedKernels quantized_avx2_vnni;
extern const QuantizedKernels quantized_avx512;
extern const QuantizedKernels quantized_avx512_vnni;
extern const TileKernels tile_kernels_amx;
#endif

QuantizedKernelList quantized_available() {
  QuantizedKernelList list{{&quantized_baseline}, 1};
#ifdef EASYDEL_X86_KERNELS
  const auto add = [&](CpuKind kind, const QuantizedKernels& table) {
    if (use_cpu_kind(kind)) list.tables[list.count++] = &table;
  };
  add(CpuKind::kAvx2, quantized_avx2);
  add(CpuKind::kAvx2Vnni, quantized_avx2_vnni);
  add(CpuKind::kAvx512, quantized_avx512);
  add(CpuKind::kAvx512Vnni, quantized_avx512_vnni);
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

const TileKernels* tile_kernels() {
#ifdef EASYDEL_X86_KERNELS
  static const bool has = use_cpu_kind(CpuKind::kAmx);
  return has ? &tile_kernels_amx : nullptr;
#else
  return nullptr;
#endif
}

}  // namespace easydel::operations::kernels

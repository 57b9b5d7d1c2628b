#include "easydel/core/cpu.h"
#include "easydel/operations/kernels/cpu/block_kernels.h"

namespace easydel::operations::kernels {

extern const BlockKernels blocks_baseline;
#ifdef EASYDEL_X86_KERNELS
extern const BlockKernels blocks_avx2;
extern const BlockKernels blocks_avx512;
#endif

BlockKernelList blocks_available() {
  BlockKernelList list{{&blocks_baseline}, 1};
#ifdef EASYDEL_X86_KERNELS
  if (use_cpu_kind(CpuKind::kAvx2)) list.tables[list.count++] = &blocks_avx2;
  if (use_cpu_kind(CpuKind::kAvx512)) list.tables[list.count++] = &blocks_avx512;
#endif
  return list;
}

const BlockKernels& blocks() {
  static const BlockKernels& widest = []() -> const BlockKernels& {
    const BlockKernelList list = blocks_available();
    return *list.tables[list.count - 1];
  }();
  return widest;
}

}  // namespace easydel::operations::kernels

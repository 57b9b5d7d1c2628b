#include "easydel/core/cpu.h"
#include "easydel/operations/kernels/cpu/block_kernels.h"

namespace easydel::operations::kernels {

extern const BlockKernels blocks_baseline;
#ifdef EASYDEL_X86_KERNELS
extern const BlockKernels blocks_avx2;
extern const BlockKernels blocks_avx2_vnni;
extern const BlockKernels blocks_avx512;
extern const BlockKernels blocks_avx512_vnni;
#endif

BlockKernelList blocks_available() {
  BlockKernelList list{{&blocks_baseline}, 1};
#ifdef EASYDEL_X86_KERNELS
  const auto add = [&](CpuKind kind, const BlockKernels& table) {
    if (use_cpu_kind(kind)) list.tables[list.count++] = &table;
  };
  add(CpuKind::kAvx2, blocks_avx2);
  add(CpuKind::kAvx2Vnni, blocks_avx2_vnni);
  add(CpuKind::kAvx512, blocks_avx512);
  add(CpuKind::kAvx512Vnni, blocks_avx512_vnni);
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

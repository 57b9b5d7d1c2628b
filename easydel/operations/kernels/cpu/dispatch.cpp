#include "easydel/operations/kernels/cpu/dispatch.h"

#include "easydel/core/cpu.h"
#include "easydel/core/error.h"

namespace easydel::operations::kernels {

extern const Kernels kernels_baseline;
#ifdef EASYDEL_X86_KERNELS
extern const Kernels kernels_avx2;
extern const Kernels kernels_avx512;
#endif

KernelList available() {
  KernelList list{{&kernels_baseline}, 1};
#ifdef EASYDEL_X86_KERNELS
  if (use_cpu_kind(CpuKind::kAvx2)) list.tables[list.count++] = &kernels_avx2;
  if (use_cpu_kind(CpuKind::kAvx512)) list.tables[list.count++] = &kernels_avx512;
#endif
  return list;
}

const Kernels& active() {
  static const Kernels& widest = []() -> const Kernels& {
    const KernelList list = available();
    return *list.tables[list.count - 1];
  }();
  return widest;
}

bool has_kernels(c10::ScalarType type) {
  return type == c10::kFloat || type == c10::kDouble || type == c10::kBFloat16 || type == c10::kHalf;
}

const ElementKernels& for_elements(c10::ScalarType type) {
  switch (type) {
    case c10::kFloat: return active().float32;
    case c10::kDouble: return active().float64;
    case c10::kBFloat16: return active().bfloat16;
    case c10::kHalf: return active().float16;
    default: fail<NotSupportedError>("[operations] no CPU kernel for elements of type ", c10::toString(type), ".");
  }
}

const AccKernels& for_acc(c10::ScalarType type) { return type == c10::kDouble ? active().acc64 : active().acc32; }

}  // namespace easydel::operations::kernels

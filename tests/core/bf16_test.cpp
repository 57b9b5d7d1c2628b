// Machines that advertise AMX and hide its CPUID leaf kill oneDNN's bf16 kernels; loading the library prevents that.
#include <gtest/gtest.h>

#include <cstdlib>

#include "easydel/core/runtime.h"

namespace easydel {
namespace {

TEST(Bf16, ProductsAndTheirGradientsWorkOnThisMachine) {
  const at::Tensor a = at::ones({96, 128}, at::kBFloat16).requires_grad_(true);
  const at::Tensor b = at::ones({128, 64}, at::kBFloat16);
  const at::Tensor product = at::mm(a, b);
  EXPECT_TRUE(at::equal(product, at::full({96, 64}, 128, at::kBFloat16)));
  const auto grads = torch::autograd::grad({product.sum()}, {a});
  EXPECT_TRUE(at::equal(grads[0], at::full({96, 128}, 64, at::kBFloat16)));
}

TEST(Bf16, OneDnnIsCappedBelowAmxWhereAmxIsHidden) {
  const char* isa = std::getenv("ONEDNN_MAX_CPU_ISA");
  if (amx_is_advertised_but_unusable()) {
    EXPECT_NE(isa, nullptr);
  } else {
    EXPECT_EQ(isa, nullptr) << "set by the caller's environment or by mistake";
  }
}

}  // namespace
}  // namespace easydel

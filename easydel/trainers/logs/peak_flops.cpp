#include "easydel/trainers/logs/peak_flops.h"

#include <ATen/Context.h>

#include <cctype>

#include "easydel/core/build_info.h"

#if EASYDEL_HAS_CUDA
#include <ATen/cuda/CUDAContext.h>
#endif

namespace easydel {
namespace {

// In TFLOP/s, without sparsity, with sums in float32; 0: not supported.
struct Gpu {
  std::string_view name;
  double bf16, fp16, tf32, fp32;
};

// The first whose name is found as whole words: what is special comes before what is general.
constexpr Gpu kGpus[] = {
    {"GB200", 2500, 2500, 1250, 80},
    {"B200", 2250, 2250, 1125, 75},
    {"B100", 1750, 1750, 875, 60},
    {"GH200", 989.4, 989.4, 494.7, 66.9},
    {"H200 NVL", 835.5, 835.5, 417.5, 60},
    {"H200", 989.4, 989.4, 494.7, 66.9},
    {"H100 PCIe", 756, 756, 378, 51.2},
    {"H100 NVL", 835.5, 835.5, 417.5, 60},
    {"H100", 989.4, 989.4, 494.7, 66.9},
    {"H800 PCIe", 756, 756, 378, 51.2},
    {"H800", 989.4, 989.4, 494.7, 66.9},
    {"H20", 148, 148, 74, 44},
    {"A100", 312, 312, 156, 19.5},
    {"A800", 312, 312, 156, 19.5},
    {"A40", 149.7, 149.7, 74.8, 37.4},
    {"A30", 165, 165, 82, 10.3},
    {"A10G", 70, 70, 35, 35},
    {"A10", 125, 125, 62.5, 31.2},
    {"L40S", 362, 362, 183, 91.6},
    {"L40", 181, 181, 90.5, 90.5},
    {"L4", 121, 121, 60, 30.3},
    {"V100", 0, 125, 0, 15.7},
    {"T4", 0, 65, 0, 8.1},
    {"RTX 6000 Ada", 364.2, 364.2, 182.1, 91.1},
    {"RTX A6000", 154.8, 154.8, 77.4, 38.7},
    {"RTX 5090", 209.5, 209.5, 104.8, 104.8},
    {"RTX 4090", 165.2, 165.2, 82.6, 82.6},
    {"RTX 3090 Ti", 80, 80, 40, 40},
    {"RTX 3090", 71, 71, 35.6, 35.6},
};

bool has_words(std::string_view text, std::string_view words) {
  const auto is_part = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
  for (std::size_t at = text.find(words); at != std::string_view::npos; at = text.find(words, at + 1)) {
    const std::size_t end = at + words.size();
    if ((at == 0 || !is_part(text[at - 1])) && (end == text.size() || !is_part(text[end]))) return true;
  }
  return false;
}

}  // namespace

std::optional<double> peak_flops_of_gpu(std::string_view name, DType dtype, bool tf32) {
  for (const Gpu& gpu : kGpus) {
    if (!has_words(name, gpu.name)) continue;
    const double tera = dtype == bfloat16  ? gpu.bf16
                        : dtype == float16 ? gpu.fp16
                        : dtype == float32 ? (tf32 && gpu.tf32 > 0 ? gpu.tf32 : gpu.fp32)
                                           : 0;
    return tera > 0 ? std::optional(tera * 1e12) : std::nullopt;
  }
  return std::nullopt;
}

std::optional<double> peak_flops(const BaseModule& model) {
#if EASYDEL_HAS_CUDA
  if (const at::Device device = model.options().device; device.is_cuda()) {
    const auto* properties = at::cuda::getDeviceProperties(device.index() < 0 ? 0 : device.index());
    const bool tf32 = model.precision() == Precision::Unset
                          ? at::globalContext().float32MatmulPrecision() != at::Float32MatmulPrecision::HIGHEST
                          : model.precision() != Precision::Highest;
    return peak_flops_of_gpu(properties->name, model.dtype(), tf32);
  }
#endif
  return std::nullopt;
}

}  // namespace easydel

#include "easydel/io/gguf/ggml_type.h"

#include <algorithm>
#include <array>

namespace easydel {
namespace {

constexpr bool kNamedOnly = false;

// Numbers and sizes as in ggml.h. The gaps are types that ggml has dropped, and Q8_1 and Q8_K, which files never use.
constexpr std::array kTypes = {
    GgmlType{0, "F32", 1, 4},
    GgmlType{1, "F16", 1, 2, float16},
    GgmlType{2, "Q4_0", 32, 18},
    GgmlType{3, "Q4_1", 32, 20},
    GgmlType{6, "Q5_0", 32, 22},
    GgmlType{7, "Q5_1", 32, 24},
    GgmlType{8, "Q8_0", 32, 34},
    GgmlType{10, "Q2_K", 256, 84, float32, kNamedOnly},
    GgmlType{11, "Q3_K", 256, 110, float32, kNamedOnly},
    GgmlType{12, "Q4_K", 256, 144},
    GgmlType{13, "Q5_K", 256, 176},
    GgmlType{14, "Q6_K", 256, 210},
    GgmlType{16, "IQ2_XXS", 256, 66, float32, kNamedOnly},
    GgmlType{17, "IQ2_XS", 256, 74, float32, kNamedOnly},
    GgmlType{18, "IQ3_XXS", 256, 98, float32, kNamedOnly},
    GgmlType{19, "IQ1_S", 256, 50, float32, kNamedOnly},
    GgmlType{20, "IQ4_NL", 32, 18, float32, kNamedOnly},
    GgmlType{21, "IQ3_S", 256, 110, float32, kNamedOnly},
    GgmlType{22, "IQ2_S", 256, 82, float32, kNamedOnly},
    GgmlType{23, "IQ4_XS", 256, 136, float32, kNamedOnly},
    GgmlType{24, "I8", 1, 1, int8},
    GgmlType{25, "I16", 1, 2, int16},
    GgmlType{26, "I32", 1, 4, int32},
    GgmlType{27, "I64", 1, 8, int64},
    GgmlType{28, "F64", 1, 8, float64},
    GgmlType{29, "IQ1_M", 256, 56, float32, kNamedOnly},
    GgmlType{30, "BF16", 1, 2, bfloat16},
    GgmlType{34, "TQ1_0", 256, 54, float32, kNamedOnly},
    GgmlType{35, "TQ2_0", 256, 66, float32, kNamedOnly},
    GgmlType{39, "MXFP4", 32, 17, float32, kNamedOnly},
    GgmlType{40, "NVFP4", 64, 36, float32, kNamedOnly},
    GgmlType{41, "Q1_0", 128, 18, float32, kNamedOnly},
};

template <class Matches>
const GgmlType* find(Matches matches) {
  const auto* found = std::find_if(kTypes.begin(), kTypes.end(), matches);
  return found == kTypes.end() ? nullptr : found;
}

}  // namespace

const GgmlType* find_ggml_type(uint32_t id) {
  return find([&](const GgmlType& type) { return type.id == id; });
}

const GgmlType* find_ggml_type(std::string_view name) {
  return find([&](const GgmlType& type) { return type.name == name; });
}

}  // namespace easydel

#include "easydel/io/torch/torch_globals.h"

#include <string>
#include <unordered_map>
#include <vector>

#include "easydel/core/error.h"

namespace easydel {
namespace {

using Kind = TorchGlobal::Kind;

constexpr std::string_view kQuantized = "quantized. Call dequantize() on it before saving.";
constexpr std::string_view kSparse = "sparse. Call to_dense() on it before saving.";
constexpr std::string_view kMeta = "on the meta device, which has no data. Materialize it before saving.";
constexpr std::string_view kNested = "nested. Call to_padded_tensor() on it before saving.";

struct Element {
  DType dtype;
  std::string_view name;     // torch's
  std::string_view storage;  // its storage class; types newer than torch 1 have none and use untyped ones
};

constexpr Element kElements[] = {
    {DType::Double, "float64", "DoubleStorage"},
    {DType::Float, "float32", "FloatStorage"},
    {DType::Half, "float16", "HalfStorage"},
    {DType::BFloat16, "bfloat16", "BFloat16Storage"},
    {DType::Long, "int64", "LongStorage"},
    {DType::Int, "int32", "IntStorage"},
    {DType::Short, "int16", "ShortStorage"},
    {DType::Char, "int8", "CharStorage"},
    {DType::Byte, "uint8", "ByteStorage"},
    {DType::Bool, "bool", "BoolStorage"},
    {DType::ComplexDouble, "complex128", "ComplexDoubleStorage"},
    {DType::ComplexFloat, "complex64", "ComplexFloatStorage"},
    {DType::ComplexHalf, "complex32", ""},
    {DType::UInt16, "uint16", ""},
    {DType::UInt32, "uint32", ""},
    {DType::UInt64, "uint64", ""},
    {DType::Float8_e4m3fn, "float8_e4m3fn", ""},
    {DType::Float8_e5m2, "float8_e5m2", ""},
    {DType::Float8_e4m3fnuz, "float8_e4m3fnuz", ""},
    {DType::Float8_e5m2fnuz, "float8_e5m2fnuz", ""},
    {DType::Float8_e8m0fnu, "float8_e8m0fnu", ""},
    {DType::Float4_e2m1fn_x2, "float4_e2m1fn_x2", ""},
};

struct Table {
  Table() {
    add("torch.Size", {Kind::Plain});
    add("torch.device", {Kind::Plain});
    add("torch.Tensor", {Kind::Plain});
    add("torch.nn.parameter.Parameter", {Kind::Plain});
    add("torch.nn.parameter.Buffer", {Kind::Plain});
    add("torch._utils._rebuild_tensor", {.kind = Kind::Tensor, .version = 1});
    add("torch._utils._rebuild_tensor_v2", {.kind = Kind::Tensor, .version = 2});
    add("torch._utils._rebuild_tensor_v3", {.kind = Kind::Tensor, .version = 3});
    add("torch._utils._rebuild_parameter", {Kind::Parameter});
    add("torch._utils._rebuild_parameter_with_state", {Kind::Parameter});
    add("torch._tensor._rebuild_from_type_v2", {Kind::Parameter});
    add("torch._utils._rebuild_qtensor", {.kind = Kind::Unsupported, .trouble = kQuantized});
    add("torch._utils._rebuild_sparse_tensor", {.kind = Kind::Unsupported, .trouble = kSparse});
    add("torch._utils._rebuild_meta_tensor_no_storage", {.kind = Kind::Unsupported, .trouble = kMeta});
    add("torch._utils._rebuild_nested_tensor", {.kind = Kind::Unsupported, .trouble = kNested});
    add("torch.serialization._get_layout", {Kind::Plain});  // how a sparse tensor names its layout
    for (const char* scheme : {"per_tensor_affine", "per_tensor_symmetric", "per_channel_affine",
                               "per_channel_symmetric", "per_channel_affine_float_qparams"}) {
      add(concat("torch.", scheme), {Kind::Plain});
    }
    add("torch.storage.UntypedStorage", {Kind::UntypedStorage});
    add_elements();
    names.reserve(globals.size());
    for (const auto& [name, global] : globals) names.push_back(name);
  }

  void add_elements() {
    for (const auto& [dtype, name, storage] : kElements) {
      add("torch." + std::string(name), {.kind = Kind::DType, .dtype = dtype, .dtype_name = name});
      if (storage.empty()) continue;
      for (const char* module : {"torch.", "torch.cuda."}) {
        add(module + std::string(storage), {.kind = Kind::Storage, .dtype = dtype, .dtype_name = name});
      }
    }
    for (const char* storage : {"QInt8", "QUInt8", "QInt32", "QUInt4x2", "QUInt2x4"}) {
      add(concat("torch.", storage, "Storage"), {.kind = Kind::Unsupported, .trouble = kQuantized});
    }
  }

  void add(std::string name, TorchGlobal global) { globals.emplace(std::move(name), global); }

  std::unordered_map<std::string, TorchGlobal> globals;
  std::vector<std::string_view> names;  // point into globals
};

const Table& table() {
  static const Table table;
  return table;
}

}  // namespace

std::span<const std::string_view> torch_global_names() { return table().names; }

std::optional<TorchGlobal> find_torch_global(std::string_view name) {
  const auto it = table().globals.find(std::string(name));
  return it == table().globals.end() ? std::nullopt : std::optional(it->second);
}

}  // namespace easydel

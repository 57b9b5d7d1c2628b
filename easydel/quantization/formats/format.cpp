#include "easydel/quantization/formats/format.h"

#include <ATen/ATen.h>

namespace easydel::quantization {
namespace {

struct KnownFormat {
  const char* quant_method;
  FormatPlan plan;
};
constexpr KnownFormat kFormats[] = {
    {"awq", plan_awq},
    {"bitsandbytes", plan_bitsandbytes},
    {"compressed-tensors", plan_compressed_tensors},
    {"fbgemm_fp8", plan_fp8},
    {"fp8", plan_fp8},
    {"gptq", plan_gptq},
    {"hqq", plan_hqq},
    {"mxfp4", plan_mxfp4},
    {"torchao", plan_torchao},
};

constexpr std::string_view kForeign[] = {".qweight", ".qzeros", ".weight_packed", ".weight_scale_2", ".W_q"};

bool is_code(DType dtype) {
  return dtype == DType::Float8_e4m3fn || dtype == DType::Float8_e5m2 || dtype == DType::Float4_e2m1fn_x2;
}

// Codes that nothing was made of have no scales.
void refuse_bare_codes(const FormatFiles& files, const Decoding& decoding, const Json& config) {
  std::set<std::string_view> read;  // files may have another name for the codes than for the weight
  for (const auto& [name, weight] : decoding.weights) read.insert(weight.place);
  for (const TensorInfo& info : files.infos()) {
    if (!is_code(info.dtype) || read.contains(info.name) || decoding.hidden.contains(info.name)) continue;
    const std::string method = text_setting(config, "quant_method", "");
    fail<NotSupportedError>("[", files.where(), "] ", quoted(info.name), " is ", dtype_name(info.dtype),
                            " without scales", method.empty() ? "" : concat(", in files of ", quoted(method)), ".");
  }
}

}  // namespace

const TensorInfo& FormatFiles::info(const std::string& name) const {
  const TensorInfo* found = find(name);
  check(found != nullptr, name, "is missing, which other tensors of the same layer need.");
  return *found;
}

at::Tensor FormatFiles::floats(const std::string& name) const { return read(name).to(at::kFloat); }

std::vector<int64_t> FormatFiles::ints(const std::string& name) const {
  const at::Tensor all = read(name).to(at::kLong).contiguous().flatten();
  return {all.const_data_ptr<int64_t>(), all.const_data_ptr<int64_t>() + all.numel()};
}

std::string format_names() {
  std::string names;
  for (const KnownFormat& known : kFormats) names += concat(names.empty() ? "" : ", ", known.quant_method);
  return names;
}

Decoding decode(const Json& config, const std::shared_ptr<const FormatFiles>& files, bool is_needed) {
  const std::string method = text_setting(config, "quant_method", "");
  for (const KnownFormat& known : kFormats) {
    if (method != known.quant_method) continue;
    Decoding decoding;
    known.plan(config, files, decoding);
    require<FormatError>(!is_needed || !decoding.weights.empty(), "[", files->where(),
                         "] config.json says that weights are quantized as ", method,
                         ", but no tensor is in that format.");
    refuse_bare_codes(*files, decoding, config);
    return decoding;
  }
  fail<NotSupportedError>("[", files->where(), "] the weights are quantized as ", quoted(method),
                          "; supported: ", format_names(), ", easydel.");
}

Decoding decode_by_names(const Json& config, const std::shared_ptr<const FormatFiles>& files) {
  Decoding decoding;
  plan_bitsandbytes(config, files, decoding);
  plan_fp8(config, files, decoding);
  plan_mxfp4(config, files, decoding);
  for (const TensorInfo& info : files->infos()) {
    for (const std::string_view suffix : kForeign) {
      require<NotSupportedError>(!info.name.ends_with(suffix), "[", files->where(), "] ", quoted(info.name),
                                 " belongs to a packed weight, but no quantization_config says of which format. ",
                                 "Put the model's config.json next to the file.");
    }
  }
  refuse_bare_codes(*files, decoding, config);
  return decoding;
}

int64_t int_setting(const Json& config, const char* key, int64_t otherwise, const std::string& where) {
  const Json* found = config.find(key);
  if (!found || found->is_null()) return otherwise;
  require<NotSupportedError>(found->is_int(), "[", where, "] quantization_config.", key, " must be an integer; got ",
                             found->dump(), ".");
  return found->as_int();
}

std::string text_setting(const Json& config, const char* key, const std::string& otherwise) {
  const Json* found = config.find(key);
  return found && found->is_string() ? found->as_string() : otherwise;
}

bool is_set(const Json& config, const char* key) {
  const Json* found = config.find(key);
  return found && *found == Json(true);
}

}  // namespace easydel::quantization

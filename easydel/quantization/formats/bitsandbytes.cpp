// bitsandbytes: 4-bit codes with a table and scales for blocks of the flattened matrix, and int8 with a scale for each
// row. Loading keeps nf4 and int8 packed under these very names (files.cpp); this makes dense weights of all.
#include <ATen/ATen.h>

#include "easydel/quantization/formats/format.h"

namespace easydel::quantization {
namespace {

constexpr std::string_view kStateMark = ".quant_state.bitsandbytes__";

// Each value as often as its block is long; the last block may be shorter.
at::Tensor spread(const at::Tensor& scales, int64_t block, int64_t count) {
  return scales.repeat_interleave(block).narrow(0, 0, count);
}

Json read_state(const FormatFiles& files, const std::string& name) {
  constexpr int64_t kMaxLength = 1 << 16;
  const TensorInfo& info = files.info(name);
  files.check(info.dtype == uint8 && info.numel() <= kMaxLength, name,
              "is not a quantization state: it must be JSON as bytes.");
  const at::Tensor bytes = files.read(name).contiguous();
  return Json::parse({static_cast<const char*>(bytes.const_data_ptr()), static_cast<std::size_t>(bytes.numel())},
                     {.where = name});
}

// With double quantization the scales are codes too.
std::function<at::Tensor()> scales_of(const Files& files, const std::string& weight, const Json& state,
                                      int64_t scales) {
  const std::string name = weight + ".absmax";
  if (!files->contains(weight + ".nested_absmax")) return [files, name] { return files->floats(name).flatten(); };
  const int64_t block = state.at("nested_blocksize").as_int();
  const double offset = state.at("nested_offset").as_double();
  files->check(files->info(name).dtype == uint8 && files->info(weight + ".nested_quant_map").numel() == 256 &&
                   block >= 1 && files->info(weight + ".nested_absmax").numel() == (scales - 1) / block + 1,
               name, "does not fit the nested scales.");
  return [=] {
    return files->floats(weight + ".nested_quant_map")
        .flatten()
        .index_select(0, files->read(name).flatten().to(at::kInt))
        .mul_(spread(files->floats(weight + ".nested_absmax").flatten(), block, scales))
        .add_(offset);
  };
}

// Two codes in a byte, the first in the high half, and a scale for each block.
void add_4bit(const Files& files, const std::string& weight, const std::string& state_name, Decoding& out) {
  const Json state = read_state(*files, state_name);
  std::vector<int64_t> shape;
  int64_t elements = 1;
  for (const Json& size : state.at("shape").as_array()) {
    shape.push_back(size.as_int());
    const bool fits = shape.back() >= 1 && !__builtin_mul_overflow(elements, shape.back(), &elements);
    files->check(fits, state_name, "has an invalid shape.");
  }
  const int64_t block = state.at("blocksize").as_int();
  const TensorInfo& codes = files->info(weight);
  files->check(codes.dtype == uint8 && codes.numel() == (elements + 1) / 2, weight, "has ", codes.numel(),
               " bytes of codes for ", elements, " weights.");
  const int64_t scales = files->info(weight + ".absmax").numel();
  files->check(block >= 1 && scales == (elements - 1) / block + 1, weight, "has ", scales, " scales for ", elements,
               " weights in blocks of ", block, ".");
  files->check(files->info(weight + ".quant_map").numel() == 16, weight, "must have a quant_map of 16 values.");
  const std::function<at::Tensor()> read_scales = scales_of(files, weight, state, scales);
  for (const char* part : {".absmax", ".quant_map", ".nested_absmax", ".nested_quant_map"})
    out.hidden.insert(weight + part);
  out.hidden.insert(state_name);
  DecodedWeight made;
  made.shape = shape;
  made.place = weight;
  made.dense = [=] {
    const at::Tensor bytes = files->read(weight).flatten();
    const at::Tensor each =
        at::stack({bytes.bitwise_right_shift(4), bytes.bitwise_and(15)}, 1).flatten().narrow(0, 0, elements);
    return files->floats(weight + ".quant_map")
        .flatten()
        .index_select(0, each.to(at::kInt))
        .mul_(spread(read_scales(), block, elements))
        .view(shape);
  };
  out.weights[weight] = std::move(made);
}

void add_8bit(const Files& files, const std::string& weight, const std::string& scale, Decoding& out) {
  const TensorInfo& codes = files->info(weight);
  files->check(codes.dtype == int8 && codes.shape.size() == 2 && files->info(scale).numel() == codes.shape[0], weight,
               "must be a matrix of int8 with a scale for each row.");
  out.hidden.insert(scale);
  out.hidden.insert(weight + "_format");
  DecodedWeight made;
  made.shape = codes.shape;
  made.place = weight;
  made.dense = [=] { return files->floats(weight).mul_(files->floats(scale).view({-1, 1}).div_(127.0)); };
  out.weights[weight] = std::move(made);
}

}  // namespace

void plan_bitsandbytes(const Json&, const Files& files, Decoding& out) {
  for (const TensorInfo& info : files->infos()) {
    const std::string& name = info.name;
    if (const std::size_t mark = name.find(kStateMark); mark != std::string::npos) {
      add_4bit(files, name.substr(0, mark), name, out);
    } else if (name.ends_with(".SCB")) {
      add_8bit(files, name.substr(0, name.size() - 3) + "weight", name, out);
    }
  }
}

}  // namespace easydel::quantization

#include "easydel/quantization/dense_checkpoint.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "easydel/core/error.h"
#include "easydel/core/text/quoted.h"

namespace easydel::quantization {
namespace {

using Files = std::shared_ptr<const Checkpoint>;

constexpr int64_t kFp8Block = 128;
constexpr std::string_view kStateMark = ".quant_state.bitsandbytes__";

constexpr float kFp4Values[] = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6, -0.0F, -0.5F, -1, -1.5F, -2, -3, -4, -6};

// Suffixes of tensors that accompany packed weights in unsupported formats.
constexpr std::string_view kForeign[] = {".qweight", ".qzeros", ".weight_packed", ".weight_scale_2"};

bool is_fp8(DType dtype) { return dtype == DType::Float8_e4m3fn || dtype == DType::Float8_e5m2; }

at::Tensor read_floats(const Files& files, const std::string& name) { return files->read(name).to(at::kFloat); }

// Each value as often as its block is long; the last block may be shorter.
at::Tensor spread(const at::Tensor& scales, int64_t block, int64_t count, int64_t dim = 0) {
  return scales.repeat_interleave(block, dim).narrow(dim, 0, count);
}

struct Made {
  std::vector<int64_t> shape;
  std::function<at::Tensor()> make;  // in float32
  std::string place = {};            // the tensor that it takes the place of, when that has another name
};

struct Plan {
  std::map<std::string, Made, std::less<>> made;  // dense weights, by name
  std::set<std::string, std::less<>> hidden;      // the tensors that accompany their codes
};

class Planner {
 public:
  Planner(Files files, const Json& config) : files_(std::move(files)), config_(config) {}

  Plan plan() {
    for (const TensorInfo& info : files_->infos()) {
      const std::string& name = info.name;
      if (const std::size_t mark = name.find(kStateMark); mark != std::string::npos) {
        add_4bit(name.substr(0, mark), name);
      } else if (name.ends_with(".SCB")) {
        add_8bit(name.substr(0, name.size() - 3) + "weight", name);
      } else if (name.ends_with("_scale_inv") || name.ends_with("_scale")) {
        add_fp8(name.substr(0, name.rfind("_scale")), name);
      } else if (name.ends_with("_blocks")) {
        add_mxfp4(name.substr(0, name.rfind("_blocks")), name);
      }
      for (const std::string_view suffix : kForeign) refuse_if(name.ends_with(suffix), name);
    }
    for (const TensorInfo& info : files_->infos()) {
      const bool is_code = is_fp8(info.dtype) || info.dtype == DType::Float4_e2m1fn_x2;
      refuse_if(is_code && !plan_.made.contains(info.name), info.name);
    }
    refuse_if(plan_.made.empty() && config_.is_object(), "");
    return std::move(plan_);
  }

 private:
  void refuse_if(bool condition, std::string_view name) const {
    if (!condition) return;
    const Json* method = config_.find("quant_method");
    fail<NotSupportedError>("[convert] ", files_->where(), " has weights that are packed",
                            method && method->is_string() ? concat(" as ", quoted(method->as_string())) : std::string(),
                            name.empty() ? std::string() : concat(", such as ", quoted(name)),
                            "; bitsandbytes' 4 and 8 bits, FP8 with scales and MXFP4 can be dequantized. Omit --dtype "
                            "to keep the weights unchanged, or convert the original model.");
  }

  template <class... Parts>
  void check(bool condition, const std::string& name, const Parts&... parts) const {
    require<FormatError>(condition, "[", files_->where(), "] ", quoted(name), " ", parts...);
  }

  int64_t count(const std::string& name) const { return files_->info(name).numel(); }

  void hide(const std::string& name) {
    if (files_->contains(name)) plan_.hidden.insert(name);
  }

  Json read_state(const std::string& name) const {
    constexpr int64_t kMaxLength = 1 << 16;
    const TensorInfo& info = files_->info(name);
    check(info.dtype == DType::Byte && info.numel() <= kMaxLength, name,
          "is not a quantization state: it must be JSON as bytes.");
    const at::Tensor bytes = files_->read(name);
    return Json::parse({static_cast<const char*>(bytes.const_data_ptr()), static_cast<std::size_t>(bytes.numel())},
                       {.where = name});
  }

  // bitsandbytes: two codes in a byte, the first in the high half, and a scale for each block.
  void add_4bit(const std::string& weight, const std::string& state_name) {
    const Json state = read_state(state_name);
    std::vector<int64_t> shape;
    int64_t elements = 1;
    for (const Json& size : state.at("shape").as_array()) {
      shape.push_back(size.as_int());
      const bool fits = shape.back() >= 1 && !__builtin_mul_overflow(elements, shape.back(), &elements);
      check(fits, state_name, "has an invalid shape.");
    }
    const int64_t block = state.at("blocksize").as_int();
    check(files_->info(weight).dtype == DType::Byte && count(weight) == (elements + 1) / 2, weight, "has ",
          count(weight), " bytes of codes for ", elements, " weights.");
    const int64_t scales = count(weight + ".absmax");
    check(block >= 1 && scales == (elements - 1) / block + 1, weight, "has ", scales, " scales for ", elements,
          " weights in blocks of ", block, ".");
    check(count(weight + ".quant_map") == 16, weight, "must have a quant_map of 16 values.");
    const std::function<at::Tensor()> read_scales = scales_of(weight, state, scales);
    for (const char* part : {".absmax", ".quant_map", ".nested_absmax", ".nested_quant_map"}) hide(weight + part);
    plan_.hidden.insert(state_name);
    plan_.made[weight] = {
        shape, [=, files = files_] {
          const at::Tensor codes = files->read(weight).flatten();
          const at::Tensor each =
              at::stack({codes.bitwise_right_shift(4), codes.bitwise_and(15)}, 1).flatten().narrow(0, 0, elements);
          return read_floats(files, weight + ".quant_map")
              .flatten()
              .index_select(0, each.to(at::kInt))
              .mul_(spread(read_scales(), block, elements))
              .view(shape);
        }};
  }

  // With double quantization the scales are codes too.
  std::function<at::Tensor()> scales_of(const std::string& weight, const Json& state, int64_t scales) const {
    const std::string name = weight + ".absmax";
    if (!files_->contains(weight + ".nested_absmax"))
      return [files = files_, name] { return read_floats(files, name).flatten(); };
    const int64_t block = state.at("nested_blocksize").as_int();
    const double offset = state.at("nested_offset").as_double();
    check(files_->info(name).dtype == DType::Byte && count(weight + ".nested_quant_map") == 256 && block >= 1 &&
              count(weight + ".nested_absmax") == (scales - 1) / block + 1,
          name, "does not fit the nested scales.");
    return [=, files = files_] {
      return read_floats(files, weight + ".nested_quant_map")
          .flatten()
          .index_select(0, files->read(name).flatten().to(at::kInt))
          .mul_(spread(read_floats(files, weight + ".nested_absmax").flatten(), block, scales))
          .add_(offset);
    };
  }

  void add_8bit(const std::string& weight, const std::string& scale) {
    const TensorInfo& codes = files_->info(weight);
    check(codes.dtype == DType::Char && codes.shape.size() == 2 && count(scale) == codes.shape[0], weight,
          "must be a matrix of int8 with a scale for each row.");
    plan_.hidden.insert(scale);
    hide(weight + "_format");
    plan_.made[weight] = {codes.shape, [=, files = files_] {
                            return read_floats(files, weight).mul_(read_floats(files, scale).view({-1, 1}).div_(127.0));
                          }};
  }

  // Scales for blocks of 128 by 128, unless weight_block_size says otherwise; for rows; or one for all.
  void add_fp8(const std::string& weight, const std::string& scale) {
    if (!files_->contains(weight) || !is_fp8(files_->info(weight).dtype)) return;  // a parameter of some model
    const std::vector<int64_t> shape = files_->info(weight).shape, given = files_->info(scale).shape;
    plan_.hidden.insert(scale);
    hide(weight.substr(0, weight.rfind('.') + 1) + "input_scale");
    if (count(scale) == 1) {
      plan_.made[weight] = {shape, [=, files = files_] {
                              return read_floats(files, weight).mul_(read_floats(files, scale).item<float>());
                            }};
      return;
    }
    check(given.size() == shape.size(), scale, "must have as many dimensions as the weight, ", shape.size(), "; got ",
          given.size(), ".");
    std::vector<int64_t> blocks;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      blocks.push_back(given[d] == shape[d] ? 1 : given[d] == 1 ? shape[d] : block_size(shape.size() - d));
      check(shape[d] >= 1 && given[d] == (shape[d] - 1) / blocks[d] + 1, scale, "has ", given[d], " scales for ",
            shape[d], " weights in blocks of ", blocks[d], ".");
    }
    plan_.made[weight] = {shape, [=, files = files_] {
                            at::Tensor factors = read_floats(files, scale);
                            for (std::size_t d = 0; d < shape.size(); ++d)
                              factors = spread(factors, blocks[d], shape[d], static_cast<int64_t>(d));
                            return read_floats(files, weight).mul_(factors);
                          }};
  }

  // Two values of four bits in a byte, the first in the low half, and a power of two for each block of a row. The model
  // takes the matrices the other way round.
  void add_mxfp4(const std::string& weight, const std::string& blocks) {
    const std::string scales = weight + "_scales";
    const std::vector<int64_t> shape = files_->info(blocks).shape;
    check(shape.size() == 4 && files_->contains(scales) && files_->info(blocks).dtype == DType::Byte &&
              files_->info(scales).dtype == DType::Byte &&
              files_->info(scales).shape == std::vector<int64_t>(shape.begin(), shape.end() - 1),
          blocks, "must be bytes of four dimensions with a scale for each block.");
    plan_.hidden.insert(scales);
    plan_.made[weight] = {
        {shape[0], 2 * shape[2] * shape[3], shape[1]},
        [=, files = files_] {
          const at::Tensor values = at::tensor(at::ArrayRef<float>(kFp4Values), at::kFloat);
          const at::Tensor codes = files->read(blocks);
          const at::Tensor each = at::stack({codes.bitwise_and(15), codes.bitwise_right_shift(4)}, -1);
          const at::Tensor exponents = files->read(scales).to(at::kInt).sub_(127).unsqueeze(-1).unsqueeze(-1);
          return at::ldexp(values.index_select(0, each.flatten().to(at::kInt)).view(each.sizes()), exponents)
              .view({shape[0], shape[1], -1})
              .transpose(1, 2)
              .contiguous();
        },
        blocks};
  }

  // Along the dimension that so many are left from, itself included.
  int64_t block_size(std::size_t left) const {
    const Json* sizes = config_.find("weight_block_size");
    if (left > 2 || !sizes || !sizes->is_array() || sizes->size() != 2) return kFp8Block;
    return std::max<int64_t>(sizes->at(2 - left).as_int(), 1);
  }

  Files files_;
  const Json& config_;
  Plan plan_;
};

std::vector<TensorInfo> infos_of(const Checkpoint& files, const Plan& plan) {
  std::map<std::string_view, std::string_view> renamed;
  for (const auto& [name, made] : plan.made) {
    if (!made.place.empty()) renamed[made.place] = name;
  }
  std::vector<TensorInfo> infos;
  for (TensorInfo info : files.infos()) {
    if (plan.hidden.contains(info.name)) continue;
    if (const auto other = renamed.find(info.name); other != renamed.end()) info.name = other->second;
    if (const auto made = plan.made.find(info.name); made != plan.made.end()) {
      info.shape = made->second.shape;
      info.dtype = float32;
      info.tied_to.clear();
    }
    infos.push_back(std::move(info));
  }
  return infos;
}

class DenseCheckpoint final : public TensorSource {
 public:
  DenseCheckpoint(Files files, Plan plan)
      : TensorSource(files->where(), infos_of(*files, plan)), files_(std::move(files)), plan_(std::move(plan)) {}

 private:
  at::Tensor load(const TensorInfo& info) const override {
    const auto made = plan_.made.find(info.name);
    return made == plan_.made.end() ? files_->tensor(info.name) : made->second.make();
  }

  Files files_;
  Plan plan_;
};

}  // namespace

std::shared_ptr<const TensorSource> open_dense(std::shared_ptr<const Checkpoint> checkpoint, const Json& config) {
  Plan plan = Planner(checkpoint, config).plan();
  if (plan.made.empty()) return checkpoint;
  return std::make_shared<DenseCheckpoint>(std::move(checkpoint), std::move(plan));
}

}  // namespace easydel::quantization

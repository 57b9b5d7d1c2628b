// compressed-tensors: groups of layers with their schemes, chosen by targets. A layer's tensors are weight_packed
// (int32 words of codes, or bytes of 4-bit floats) or weight (int8, FP8), weight_scale, and for some weight_zero_point,
// weight_g_idx, weight_shape, weight_global_scale.
#include <ATen/ATen.h>

#include <algorithm>
#include <regex>

#include "easydel/quantization/formats/affine.h"
#include "easydel/quantization/formats/floats.h"

namespace easydel::quantization {
namespace {

constexpr const char* kLayouts =
    "int-quantized, float-quantized, naive-quantized, pack-quantized, "
    "nvfp4-pack-quantized, mxfp4-pack-quantized";

struct Scheme {
  std::vector<std::string> targets;
  std::string format, type, strategy;
  int64_t bits = 8, group = 0;
  bool symmetric = true;
  std::pair<int64_t, int64_t> blocks = {128, 128};
};

// A name, "re:" with a regular expression that the name begins with, or the class of a layer.
bool is_match(const std::string& path, const std::string& target) {
  if (!target.starts_with("re:")) return target == path || target == "Linear";
  try {
    return std::regex_search(path, std::regex(target.substr(3)), std::regex_constants::match_continuous);
  } catch (const std::regex_error& error) {
    fail<NotSupportedError>("[compressed-tensors] the target ", quoted(target),
                            " is not a regular expression that can be read here: ", error.what(), ".");
  }
}

bool is_any(const std::string& path, const std::vector<std::string>& targets) {
  for (const std::string& target : targets) {
    if (is_match(path, target)) return true;
  }
  return false;
}

std::vector<std::string> texts(const Json* list) {
  std::vector<std::string> all;
  if (list && list->is_array()) {
    for (const Json& text : list->as_array()) all.push_back(text.as_string());
  }
  return all;
}

Scheme scheme_of(const std::string& name, const Json& group, const std::string& format, const std::string& where) {
  const Json* weights = group.find("weights");
  const std::string place = concat("[", where, "] quantization_config.config_groups.", name);
  require<NotSupportedError>(weights && weights->is_object(), place, ".weights must be an object; got ",
                             weights ? weights->dump() : "none", ".");
  Scheme scheme;
  scheme.targets = texts(group.find("targets"));
  scheme.format = text_setting(group, "format", format);
  scheme.type = text_setting(*weights, "type", "int");
  scheme.strategy = text_setting(*weights, "strategy", "tensor");
  scheme.bits = int_setting(*weights, "num_bits", 8, where);
  scheme.group = int_setting(*weights, "group_size", 0, where);
  scheme.symmetric = !weights->find("symmetric") || is_set(*weights, "symmetric");
  if (const Json* blocks = weights->find("block_structure"); blocks && blocks->is_array() && blocks->size() == 2)
    scheme.blocks = {blocks->at(0).as_int(), blocks->at(1).as_int()};
  const bool is_float = scheme.type == "float";
  const bool known = scheme.format == "pack-quantized"         ? !is_float && scheme.bits >= 1 && scheme.bits <= 8
                     : scheme.format == "int-quantized"        ? !is_float && scheme.bits <= 8
                     : scheme.format == "float-quantized"      ? is_float && scheme.bits == 8
                     : scheme.format == "naive-quantized"      ? scheme.bits == 8 || (!is_float && scheme.bits < 8)
                     : scheme.format == "nvfp4-pack-quantized" ? is_float && scheme.bits == 4 && scheme.group == 16
                     : scheme.format == "mxfp4-pack-quantized" ? is_float && scheme.bits == 4 && scheme.group == 32
                                                               : false;
  require<NotSupportedError>(known, place, " has the format ", quoted(scheme.format), " with ", scheme.bits, "-bit ",
                             scheme.type, " weights", scheme.group > 0 ? concat(" in groups of ", scheme.group) : "",
                             "; supported: ", kLayouts, ".");
  const auto strategies = {"tensor", "channel", "group", "block", "tensor_group"};
  require<NotSupportedError>(std::find(strategies.begin(), strategies.end(), scheme.strategy) != strategies.end(),
                             place, ".weights.strategy must be tensor, channel, group, tensor_group or block; got ",
                             quoted(scheme.strategy), ".");
  return scheme;
}

struct Layer {
  const Files& files;
  const Scheme& scheme;
  std::string prefix;  // with the dot
  std::string scale = prefix + "weight_scale";

  std::vector<int64_t> scale_shape() const { return files->info(scale).shape; }

  // [out, groups], from one for all, one for each row, or these.
  std::function<at::Tensor()> scales(int64_t out, int64_t groups) const {
    const int64_t count = files->info(scale).numel();
    files->check(count == 1 || count == out * groups, scale, "has ", count, " scales; ", out, " rows with ", groups,
                 groups == 1 ? " group" : " groups", " need as many, or one for all.");
    return [files = files, scale = scale, out, groups, one = count == 1 && out * groups != 1] {
      const at::Tensor all = files->read(scale);
      return one ? all.view({1, 1}).expand({out, groups}) : all.view({out, groups});
    };
  }

  int64_t group_of(int64_t in) const {
    const bool grouped = scheme.strategy == "group" && scheme.group > 0;
    return grouped ? scheme.group : in;
  }

  std::function<at::Tensor()> order(int64_t in, int64_t groups) const {
    const std::string name = prefix + "weight_g_idx";
    if (!files->contains(name)) return {};
    files->check(files->info(name).numel() == in, name, "must have a group for each of ", in, " inputs; got ",
                 files->info(name).numel(), ".");
    return [files = files, name, groups] {
      const at::Tensor of = files->read(name).to(at::kLong).flatten();
      files->check(of.numel() == 0 || (of.min().item<int64_t>() >= 0 && of.max().item<int64_t>() < groups), name,
                   "has groups outside of the ", groups, " that have scales.");
      return of;
    };
  }

  DecodedWeight packed_ints() const {
    const std::string name = prefix + "weight_packed", zero = prefix + "weight_zero_point";
    const TensorInfo& info = files->info(name);
    const std::vector<int64_t> shape = files->ints(prefix + "weight_shape");
    files->check(shape.size() == 2 && shape[0] > 0 && shape[1] > 0, prefix + "weight_shape", "must be two sizes.");
    const int64_t out = shape[0], in = shape[1], bits = scheme.bits, words = (in * bits + 31) / 32;
    files->check(info.dtype == int32 && info.shape == std::vector<int64_t>{out, words}, name, "must be int32 [", out,
                 ", ", words, "] for ", in, " codes of ", bits, " bits; got ", at::IntArrayRef(info.shape), ".");
    const int64_t group = group_of(in), groups = (in + group - 1) / group;
    AffineMatrix matrix{.out = out, .in = in, .bits = bits, .group = group, .scale_dtype = files->info(scale).dtype};
    matrix.codes = [files = files, name, bits, in] { return unpack_words(files->read(name), bits, in); };
    matrix.scales = scales(out, groups);
    matrix.group_of = order(in, groups);
    if (!scheme.symmetric) {
      const std::vector<int64_t> wanted{(out * bits + 31) / 32, groups};
      files->check(files->info(zero).dtype == int32 && files->info(zero).shape == wanted, zero, "must be int32 ",
                   at::IntArrayRef(wanted), "; got ", at::IntArrayRef(files->info(zero).shape), ".");
      matrix.zeros = [files = files, zero, bits, out] {
        return unpack_words(files->read(zero).t(), bits, out).t().to(at::kFloat);
      };
    }
    return affine_weight(std::move(matrix), name);
  }

  DecodedWeight plain_ints() const {
    const std::string name = prefix + "weight", zero = prefix + "weight_zero_point";
    const TensorInfo& info = files->info(name);
    files->check(info.dtype == int8 && info.shape.size() == 2 && info.numel() > 0, name, "must be a matrix of int8.");
    const int64_t out = info.shape[0], in = info.shape[1], group = group_of(in), groups = (in + group - 1) / group;
    AffineMatrix matrix{.out = out, .in = in, .bits = 8, .group = group, .scale_dtype = files->info(scale).dtype};
    matrix.codes = [files = files, name] { return files->read(name).to(at::kShort).add_(128).to(at::kByte); };
    matrix.scales = scales(out, groups);
    matrix.group_of = order(in, groups);
    if (!scheme.symmetric) {
      const int64_t count = files->info(zero).numel();
      files->check(count == 1 || count == out * groups, zero, "has ", count, " zero points for ", out * groups,
                   " scales.");
      matrix.zeros = [files = files, zero, out, groups, count] {
        const at::Tensor all = files->floats(zero).add_(128);
        return count == 1 ? all.view({1, 1}).expand({out, groups}) : all.view({out, groups});
      };
    }
    return affine_weight(std::move(matrix), name);
  }

  DecodedWeight packed_floats() const {
    const std::string name = prefix + "weight_packed";
    const TensorInfo& info = files->info(name);
    files->check(info.dtype == uint8 && info.shape.size() == 2, name, "must be a matrix of bytes.");
    const int64_t out = info.shape[0], in = 2 * info.shape[1];
    const std::vector<int64_t> wanted{out, in / scheme.group};
    files->check(in % scheme.group == 0 && scale_shape() == wanted, scale, "must be [", out, ", ", in / scheme.group,
                 "], a scale for each group of ", scheme.group, "; got ", at::IntArrayRef(scale_shape()), ".");
    DecodedWeight made;
    made.shape = {out, in};
    made.place = name;
    if (scheme.format == "mxfp4-pack-quantized") {
      files->check(files->info(scale).dtype == uint8, scale, "must be exponents as bytes.");
      made.dense = [files = files, name, scale = scale] { return mxfp4_values(files->read(name), files->read(scale)); };
      made.method = [] { return make_method({.method = "mxfp4"}); };
      made.parts = [files = files, name, scale = scale]() -> std::vector<at::Tensor> {
        return {files->read(name), files->read(scale)};
      };
      return made;
    }
    const std::string global = prefix + "weight_global_scale";
    files->check(files->info(global).numel() == 1, global, "must be one number.");
    made.dense = [files = files, name, scale = scale, global, group = scheme.group] {
      const at::Tensor values = fp4_values(files->read(name));
      scale_blocks_(values, files->floats(scale) / files->floats(global).item<float>(), 1, group);
      return values;
    };
    return made;
  }

  DecodedWeight decoded() const {
    if (scheme.format.ends_with("fp4-pack-quantized")) return packed_floats();
    if (scheme.format == "pack-quantized") return packed_ints();
    if (scheme.type == "float") {
      const auto blocks = scheme.strategy == "group" ? std::pair<int64_t, int64_t>{1, scheme.group} : scheme.blocks;
      return fp8_weight(files, prefix + "weight", scale, blocks);
    }
    return plain_ints();
  }
};

void check_compressed(const Json& config, const std::string& where) {
  const auto refuse = [&](const char* key, const Json* value) {
    fail<NotSupportedError>("[", where, "] quantization_config.", key,
                            " is not supported by compressed-tensors' reader; got ", value->dump(),
                            ". Layouts that are: ", kLayouts, ".");
  };
  const Json* sparsity = config.find("sparsity_config");
  if (sparsity && sparsity->is_object() && sparsity->size() > 0 &&
      text_setting(*sparsity, "format", "dense") != "dense")
    refuse("sparsity_config", sparsity);
  if (const Json* transform = config.find("transform_config");
      transform && transform->is_object() && transform->size() > 0)
    refuse("transform_config", transform);
}

}  // namespace

void plan_compressed_tensors(const Json& config, const Files& files, Decoding& out) {
  check_compressed(config, files->where());
  const std::string format = text_setting(config, "format", "");
  const Json* groups = config.find("config_groups");
  require<NotSupportedError>(groups && groups->is_object() && groups->size() > 0, "[", files->where(),
                             "] quantization_config.config_groups must have at least one group.");
  std::vector<Scheme> schemes;
  for (const auto& [name, group] : groups->as_object())
    schemes.push_back(scheme_of(name, group, format, files->where()));
  const std::vector<std::string> ignored = texts(config.find("ignore"));
  for (const TensorInfo& info : files->infos()) {
    for (const char* cache : {".k_scale", ".v_scale", ".q_scale", ".k_zero_point", ".v_zero_point"}) {
      if (info.name.ends_with(cache)) out.hidden.insert(info.name);  // of the cache, which has its own setting here
    }
    if (!info.name.ends_with(".weight_scale")) continue;
    const std::string prefix = info.name.substr(0, info.name.size() - 12), path = prefix.substr(0, prefix.size() - 1);
    files->check(!is_any(path, ignored), info.name, "has scales, but quantization_config.ignore lists its layer.");
    const Scheme* scheme = nullptr;
    // A name says more than a class does.
    for (const Scheme& s : schemes) {
      for (const std::string& target : s.targets) {
        if (is_match(path, target) && (target != "Linear" || !scheme)) scheme = &s;
      }
    }
    files->check(scheme != nullptr, info.name, "matches no target of quantization_config.config_groups.");
    for (const char* part : {"weight_scale", "weight_zero_point", "weight_g_idx", "weight_shape", "weight_global_scale",
                             "input_scale", "input_zero_point", "input_global_scale"})
      out.hidden.insert(prefix + part);
    out.weights[prefix + "weight"] = Layer{files, *scheme, prefix}.decoded();
  }
  for (const TensorInfo& info : files->infos()) {
    if (!info.name.ends_with(".weight_packed")) continue;
    const std::string prefix = info.name.substr(0, info.name.size() - 13);
    files->check(out.weights.contains(prefix + "weight"), info.name, "has no weight_scale.");
  }
}

}  // namespace easydel::quantization

// Which weights are packed when a model is loaded: those selected by the options, or those packed in the files.
#include <ATen/ATen.h>

#include <map>
#include <set>

#include "easydel/core/error.h"
#include "easydel/quantization/methods/gguf_blocks.h"
#include "easydel/quantization/pack.h"

namespace easydel::quantization {
namespace {

// What the files have, by the tensors that are in them.
class FilesPacking {
 public:
  FilesPacking(const BaseModule& module, MethodSettings settings, const WeightSource& files)
      : module_(module), settings_(std::move(settings)), files_(files), names_(module, files.names) {}

  std::shared_ptr<const Packing> find() {
    const bool gguf = settings_.method == "gguf";
    const std::string scale = gguf ? "weight.scales" : make_method(settings_)->parts(32, 4096)[1].name;
    std::set<const Parameter*> packed;
    for (const auto& [path, child] : module_.named_modules()) {
      const auto* linear = dynamic_cast<const Linear*>(child);
      const auto* table = dynamic_cast<const Embedding*>(child);
      if (!linear && !table) continue;
      const auto own = names_.find(path + "." + scale);
      const int64_t in = linear ? linear->in_features() : table->features_dim().size;
      const bool found = own ? true : gguf && note_blocks(path, in);
      // A head that is tied to a table has no tensors of its own.
      if (found || (linear && packed.contains(linear->weight().get()))) layers_.push_back(path);
      if (!found) continue;
      packed.insert((linear ? linear->weight() : table->weight()).get());
      if (settings_.method == "nf4")
        note_groups(*own, in * (linear ? linear->out_features() : table->count_dim().size), path + ".weight");
      if (gguf && own) others_[path] = make_method({.method = "int4", .group_size = 32});
    }
    for (const ExpertStack& stack : expert_stacks(module_)) {
      const std::string end = scale.starts_with("weight") ? scale.substr(6) : "." + scale;
      const auto own = names_.find(stack.path + end);
      if (!own) continue;
      layers_.push_back(stack.path);
      if (settings_.method == "nf4") note_groups(*own, c10::multiply_integers(stack.stack->dense->shape), stack.path);
    }
    require<FormatError>(!layers_.empty(), "[", files_.where, "] config.json says that weights are quantized as ",
                         settings_.method, ", but no tensor has scales.");
    const auto method = gguf ? first_blocks_ : make_method(settings_);
    require<FormatError>(method != nullptr, "[", files_.where, "] config.json says that weights are GGUF blocks, ",
                         "but no tensor is.");
    return std::make_shared<Packing>(method, std::move(layers_), nullptr, std::move(others_));
  }

 private:
  void note_groups(const std::string& scales, int64_t elements, const std::string& weight) {
    const int64_t count = c10::multiply_integers(files_.shape(scales));
    require<FormatError>(count > 0 && elements % count == 0, "[", files_.where, "] \"", scales, "\" has ", count,
                         " scales for ", elements, " values.");
    settings_.group_size = elements / count;
    settings_.double_quant = names_.find(weight + ".nested_absmax").has_value();
  }

  // A tensor of GGUF's blocks says by its shape of which type they are.
  bool note_blocks(const std::string& path, int64_t in) {
    const auto name = names_.find(path + ".weight");
    if (!name) return false;
    const std::vector<int64_t> shape = files_.shape(*name);
    if (shape.size() != 3 || shape[1] < 1 || in % shape[1] != 0) return false;
    const auto blocks = find_gguf_blocks(in / shape[1], shape[2]);
    if (!blocks) return false;
    if (!first_blocks_) first_blocks_ = blocks;
    others_[path] = blocks;
    return true;
  }

  const BaseModule& module_;
  MethodSettings settings_;
  const WeightSource& files_;
  FileNames names_;
  std::vector<std::string> layers_;
  LayerMethods others_;
  std::shared_ptr<const Method> first_blocks_;
};

MethodSettings settings_of(const Json& json, const std::string& where) {
  const auto text = [&](const char* key) {
    const Json* value = json.find(key);
    return value && value->is_string() ? value->as_string() : std::string();
  };
  const auto is_true = [&](const char* key) {
    const Json* value = json.find(key);
    return value && *value == Json(true);
  };
  const std::string method = text("quant_method");
  MethodSettings settings;
  if (method == "easydel") {
    settings.method = text("method");
    const Json* group = json.find("group_size");
    if (group && group->is_int()) settings.group_size = group->as_int();
    settings.double_quant = is_true("double_quant");
    if (settings.method != "gguf") make_method(settings);
    return settings;
  }
  require<NotSupportedError>(method == "bitsandbytes", "[", where, "] the weights are quantized with \"", method,
                             "\"; known: bitsandbytes (nf4 and int8), easydel. Convert FP8 and MXFP4 with easydel "
                             "convert MODEL OUT --dtype bf16.");
  if (is_true("load_in_8bit")) return {.method = "8bit"};
  require<NotSupportedError>(text("bnb_4bit_quant_type") == "nf4", "[", where,
                             "] of bitsandbytes' 4-bit types only nf4 is supported; got \"",
                             text("bnb_4bit_quant_type"), "\".");
  return {.method = "nf4"};
}

// EasyDeL's form: {"dtype": "nf4", "group_size": 64, "pattern": "…"}. The files are dense, and packed as they are read.
QuantizeOptions easydel_form(const Json& json, const std::string& where) {
  static const std::map<std::string, std::string> kMethods{
      {"8bit", "8bit"}, {"a8q", "a8q"}, {"int4", "int4"}, {"int8", "8bit"}, {"nf4", "nf4"}};
  QuantizeOptions options;
  bool named = false;
  for (const auto& [key, value] : json.as_object()) {
    const std::string place = concat("[", where, "] quantization_config.", key);
    if (value.is_null()) continue;
    if (key == "dtype" || key == "method") {
      const auto found = value.is_string() ? kMethods.find(value.as_string()) : kMethods.end();
      require<NotSupportedError>(found != kMethods.end(), place, " must be one of int4, int8, nf4, 8bit, a8q; got ",
                                 value.dump(), ".");
      options.method = found->second;
      named = true;
    } else if (key == "group_size" || key == "block_size") {
      require<ConfigError>(value.is_int() && value.as_int() > 0, place, " must be a positive integer; got ",
                           value.dump(), ".");
      options.group_size = value.as_int();
    } else if (key == "pattern" || key == "quantization_pattern") {
      require<ConfigError>(value.is_string(), place, " must be a regular expression; got ", value.dump(), ".");
      options.pattern = value.as_string();
    } else {
      fail<NotSupportedError>(place, " is not supported; known: dtype, group_size, pattern.");
    }
  }
  require<ConfigError>(named, "[", where, "] quantization_config must have a quant_method (Hugging Face's form) or a ",
                       "dtype (EasyDeL's); got ", json.dump(), ".");
  return options;
}

}  // namespace
}  // namespace easydel::quantization

namespace easydel {

std::shared_ptr<const FileTransform> packing_at_load(const BaseModule& module, const LoadOptions& options,
                                                     const WeightSource& files) {
  using namespace quantization;
  require<ConfigError>(
      !options.load_in_8bit || options.quantization_method.empty() || options.quantization_method == "8bit",
      "[from_pretrained] load_in_8bit and the quantization_method \"", options.quantization_method,
      "\" are mutually exclusive.");
  const std::string wanted = options.load_in_8bit ? "8bit" : options.quantization_method;
  const Json& config = module.config().quantization.weights;
  const bool from_files = config.is_object() && config.find("quant_method") != nullptr;
  const bool to_pack = config.is_object() && !from_files && config.size() > 0;
  require<ConfigError>(
      !wanted.empty() || (options.bit_targeted_params.empty() && options.quantization_pattern.empty() &&
                          options.quantization_block_size == 0 && !options.quantization_double_quant),
      "[from_pretrained] bit_targeted_params, quantization_pattern, quantization_block_size and "
      "quantization_double_quant need a quantization_method.");
  const auto pack = [&](const auto& method, const std::vector<std::string>& layers) {
    auto packing = std::make_shared<const Packing>(method, layers);
    if (!options.quantize_tensors) packing->check(module);
    return options.quantize_tensors ? packing : nullptr;
  };
  if (wanted.empty() && to_pack) {
    const QuantizeOptions asked = easydel_form(config, files.where);
    const auto method = make_method({asked.method, asked.group_size, asked.double_quant});
    const std::vector<std::string> layers = layers_to_quantize(module, asked);
    return pack(method, layers);
  }
  if (wanted.empty())
    return from_files ? FilesPacking(module, settings_of(config, files.where), files).find() : nullptr;
  require<ConfigError>(!from_files, "[from_pretrained] ", files.where, " is already quantized. Load it without ",
                       "quantization_method, or quantize the original model.");
  const QuantizeOptions asked{.method = wanted,
                              .group_size = options.quantization_block_size,
                              .pattern = options.quantization_pattern,
                              .double_quant = options.quantization_double_quant,
                              .bit_targeted_params = options.bit_targeted_params};
  const MethodSettings settings{asked.method, asked.group_size, asked.double_quant};
  const auto method = make_method(settings);
  require<ConfigError>(!method->needs_calibration(), "[from_pretrained] ", wanted,
                       " needs calibration data: load the model first, and then call quantize.");
  const std::vector<std::string> layers = layers_to_quantize(module, asked);
  return pack(method, layers);
}

}  // namespace easydel

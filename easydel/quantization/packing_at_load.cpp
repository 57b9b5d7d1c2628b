// Which weights are packed when a model is loaded: those selected by the options, or those packed in the files.
#include <ATen/ATen.h>

#include <map>
#include <set>

#include "easydel/core/error.h"
#include "easydel/core/log.h"
#include "easydel/quantization/formats/decoded_source.h"
#include "easydel/quantization/methods/gguf_blocks.h"
#include "easydel/quantization/pack.h"

namespace easydel::quantization {
namespace {

// What the files have, by the tensors that are in them.
class FilesPacking {
 public:
  FilesPacking(const BaseModule& module, QuantizeOptions settings, const TensorSource& files)
      : module_(module), settings_(std::move(settings)), files_(files), names_(module, files) {}

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
      const bool found = own ? true : gguf && note_blocks(path, path + ".weight", in);
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
      const bool found = own || (gguf && note_blocks(stack.path, stack.path, stack.stack->in.size));
      if (!found) continue;
      layers_.push_back(stack.path);
      if (gguf && own) others_[stack.path] = make_method({.method = "int4", .group_size = 32});
      if (settings_.method == "nf4") note_groups(*own, c10::multiply_integers(stack.stack->dense->shape), stack.path);
    }
    require<FormatError>(!layers_.empty(), "[", files_.where(), "] config.json says that weights are quantized as ",
                         settings_.method, ", but no tensor has scales.");
    const auto method = gguf ? first_blocks_ : make_method(settings_);
    require<FormatError>(method != nullptr, "[", files_.where(), "] config.json says that weights are GGUF blocks, ",
                         "but no tensor is.");
    return std::make_shared<Packing>(method, std::move(layers_), nullptr, std::move(others_));
  }

 private:
  void note_groups(const std::string& scales, int64_t elements, const std::string& weight) {
    const int64_t count = c10::multiply_integers(files_.info(scales).shape);
    require<FormatError>(count > 0 && elements % count == 0, "[", files_.where(), "] \"", scales, "\" has ", count,
                         " scales for ", elements, " values.");
    settings_.group_size = elements / count;
    settings_.double_quant = names_.find(weight + ".nested_absmax").has_value();
  }

  // A tensor of GGUF's blocks, [(experts,) out, blocks of a row, bytes of a block], says by its shape of which type
  // they are.
  bool note_blocks(const std::string& path, const std::string& weight, int64_t in) {
    const auto name = names_.find(weight);
    if (!name) return false;
    const std::vector<int64_t> shape = files_.info(*name).shape;
    const std::size_t dims = path == weight ? 4 : 3;
    if (shape.size() != dims || shape[dims - 2] < 1 || in % shape[dims - 2] != 0) return false;
    const auto blocks = find_gguf_blocks(in / shape[dims - 2], shape[dims - 1]);
    if (!blocks) return false;
    if (!first_blocks_) first_blocks_ = blocks;
    others_[path] = blocks;
    return true;
  }

  const BaseModule& module_;
  QuantizeOptions settings_;
  const TensorSource& files_;
  FileNames names_;
  std::vector<std::string> layers_;
  LayerMethods others_;
  std::shared_ptr<const Method> first_blocks_;
};

// The layers of files in a published format that stay packed: those whose codes a method has.
class FormatPacking {
 public:
  FormatPacking(const BaseModule& module, const Json& format, std::shared_ptr<const TensorSource> files)
      : module_(module),
        format_(format),
        decoded_(decoded_source(format, std::move(files))),
        names_(module, *decoded_) {}

  std::shared_ptr<const Packing> find() {
    std::map<const Parameter*, std::shared_ptr<const Method>> packed;
    for (const auto& [path, child] : module_.named_modules()) {
      const auto* linear = dynamic_cast<const Linear*>(child);
      const auto* table = dynamic_cast<const Embedding*>(child);
      if (!linear && !table) continue;
      const Parameter* weight = (linear ? linear->weight() : table->weight()).get();
      // A head that is tied to a table has no tensors of its own.
      if (const auto known = packed.find(weight); known != packed.end()) layers_[path] = known->second;
      const auto name = names_.find(path + ".weight");
      const bool straight = !linear || !linear->options().transposed;
      const auto method = name && straight ? method_of(*name, weight->shape) : nullptr;
      if (method) layers_[path] = packed[weight] = method;
    }
    for (const ExpertStack& stack : expert_stacks(module_)) note(stack);
    return std::make_shared<Packing>(std::move(layers_), format_);
  }

 private:
  // Null: the weight becomes dense, or is.
  std::shared_ptr<const Method> method_of(const std::string& name, const std::vector<int64_t>& shape) const {
    const auto& weights = decoded_->decoding().weights;
    const auto found = weights.find(name);
    if (found == weights.end() || !found->second.method || found->second.shape != shape) return nullptr;
    return found->second.method();
  }

  void note(const ExpertStack& stack) {
    const Parameter& dense = *stack.stack->dense;
    for (const std::string& spelled : names_.spellings(stack.path)) {
      for (const FileLayout& layout : {dense.layout_in_files(spelled), dense.whole_layout(spelled)}) {
        std::shared_ptr<const Method> common;
        bool same = !layout.empty() && (layout.size() == 1 || !stack.experts->transposed());
        for (std::size_t i = 0; i < layout.size() && same; ++i) {
          const auto method = method_of(layout[i].name, layout[i].shape);
          same = method && (!common || common->settings() == method->settings());
          common = method;
        }
        if (!same) continue;
        layers_[stack.path] = common;
        return;
      }
    }
  }

  const BaseModule& module_;
  const Json& format_;
  std::shared_ptr<const DecodedSource> decoded_;
  FileNames names_;
  LayerMethods layers_;
};

// What save_pretrained wrote of a model whose layers have methods of their own: the parts tell which.
class MixedPacking {
 public:
  MixedPacking(const BaseModule& module, const TensorSource& files)
      : module_(module), files_(files), names_(module, files) {}

  std::shared_ptr<const Packing> find() {
    LayerMethods layers;
    std::map<const Parameter*, std::shared_ptr<const Method>> packed;
    for (const auto& [path, child] : module_.named_modules()) {
      const auto* linear = dynamic_cast<const Linear*>(child);
      const auto* table = dynamic_cast<const Embedding*>(child);
      if (!linear && !table) continue;
      const Parameter* weight = (linear ? linear->weight() : table->weight()).get();
      if (const auto known = packed.find(weight); known != packed.end()) layers[path] = known->second;
      const int64_t in = linear ? linear->in_features() : table->features_dim().size;
      if (const auto method = method_of(path + ".weight", path, in, 0)) layers[path] = packed[weight] = method;
    }
    for (const ExpertStack& stack : expert_stacks(module_)) {
      if (const auto method = method_of(stack.path, stack.path, stack.stack->in.size, 1)) layers[stack.path] = method;
    }
    require<FormatError>(!layers.empty(), "[", files_.where(),
                         "] config.json says that weights are packed by layer, but no tensor has scales.");
    return std::make_shared<Packing>(std::move(layers), Json());
  }

 private:
  // By the names and shapes of the scales, which have `before` dimensions before those of a matrix.
  std::shared_ptr<const Method> method_of(const std::string& weight, const std::string& owner, int64_t in,
                                          std::size_t before) const {
    const auto group = [&](const std::string& name) -> int64_t {
      const std::vector<int64_t> shape = files_.info(name).shape;
      if (shape.size() == before + 1) return 0;
      require<FormatError>(shape.size() == before + 2 && shape.back() > 0 && in % shape.back() == 0, "[",
                           files_.where(), "] \"", name, "\" is ", at::IntArrayRef(shape), ", which does not divide ",
                           in, " columns.");
      return in / shape.back();
    };
    if (names_.find(owner + ".SCB")) return make_method({.method = "8bit"});
    if (names_.find(weight + ".exponents")) return make_method({.method = "mxfp4"});
    if (const auto name = names_.find(weight + ".scale"))
      return make_method({.method = "fp8", .group_size = group(*name)});
    const auto scales = names_.find(weight + ".scales");
    if (!scales) return nullptr;
    const bool zeros = names_.find(weight + ".zeros").has_value();
    return make_method({.method = zeros ? "uint4" : "int4", .group_size = group(*scales)});
  }

  const BaseModule& module_;
  const TensorSource& files_;
  FileNames names_;
};

QuantizeOptions settings_of(const Json& json) {
  const auto text = [&](const char* key) {
    const Json* value = json.find(key);
    return value && value->is_string() ? value->as_string() : std::string();
  };
  const auto is_true = [&](const char* key) {
    const Json* value = json.find(key);
    return value && *value == Json(true);
  };
  const std::string method = text("quant_method");
  QuantizeOptions settings;
  if (method == "easydel") {
    settings.method = text("method");
    const Json* group = json.find("group_size");
    if (group && group->is_int()) settings.group_size = group->as_int();
    settings.double_quant = is_true("double_quant");
    if (settings.method != "gguf" && settings.method != "mixed") make_method(settings);
    return settings;
  }
  return {.method = is_true("load_in_8bit") ? "8bit" : "nf4"};
}

// Files that decode() reads: all but EasyDeL's own, and those of bitsandbytes that keep their names in memory.
bool is_published(const Json& config) {
  const std::string method = text_setting(config, "quant_method", "");
  if (method == "easydel") return false;
  const bool packed = is_set(config, "load_in_8bit") || text_setting(config, "bnb_4bit_quant_type", "") == "nf4";
  return method != "bitsandbytes" || !packed;
}

std::shared_ptr<const Packing> from_files_of(const BaseModule& module, const Json& config,
                                             const std::shared_ptr<const TensorSource>& files) {
  if (is_published(config)) return FormatPacking(module, config, files).find();
  const QuantizeOptions settings = settings_of(config);
  if (settings.method == "mixed") return MixedPacking(module, *files).find();
  return FilesPacking(module, settings, *files).find();
}

// What the caller asks for; else EasyDeL's form of a quantization_config, whose files are dense.
std::optional<QuantizeOptions> asked_of(const LoadOptions& options, const Json& config, const std::string& where) {
  std::optional<QuantizeOptions> asked = options.quantization_config;
  require<ConfigError>(!options.load_in_8bit || !asked || asked->method == "8bit",
                       "[from_pretrained] load_in_8bit and the method \"", asked ? asked->method : "",
                       "\" of quantization_config are mutually exclusive.");
  if (options.load_in_8bit && !asked) asked.emplace();
  require<ConfigError>(config.is_null() || config.is_object(), "[", where,
                       "] quantization_config must be an object; got ", config.dump(), ".");
  if (asked || !config.is_object() || config.contains("quant_method") || config.size() == 0) return asked;
  asked = QuantizeOptions{.method = {}};
  read_mapping(*asked, config, [&](std::string_view key) { return concat("[", where, "] quantization_config.", key); });
  require<ConfigError>(!asked->method.empty(), "[", where, "] quantization_config must have a quant_method (Hugging ",
                       "Face's form) or a dtype (EasyDeL's); got ", config.dump(), ".");
  return asked;
}

}  // namespace
}  // namespace easydel::quantization

namespace easydel {

std::shared_ptr<const FileTransform> packing_at_load(const BaseModule& module, const LoadOptions& options,
                                                     const std::shared_ptr<const TensorSource>& files) {
  using namespace quantization;
  const Json& config = module.config().quantization.weights;
  const bool from_files = config.is_object() && config.contains("quant_method");
  const auto asked = asked_of(options, config, files->where());
  if (!asked) return from_files ? from_files_of(module, config, files) : nullptr;
  const bool published = from_files && is_published(config);
  require<ConfigError>(!from_files || published, "[from_pretrained] ", files->where(),
                       " is already quantized. Load it without quantization_config, or quantize the original model.");
  const auto method = make_method(*asked);
  require<ConfigError>(!method->needs_calibration() && !asked->calibration, "[from_pretrained] ", asked->method,
                       " with calibration data: load the model first, and then call quantize.");
  const std::vector<std::string> layers = layers_to_quantize(module, *asked);
  const auto packing = std::make_shared<Packing>(method, layers);
  if (asked->verbose) log::info("[from_pretrained] ", layers.size(), " layers as ", asked->method);
  if (!asked->quantize_tensors) {
    packing->check(module);
    return published ? from_files_of(module, config, files) : nullptr;
  }
  if (published) packing->read_format(config);
  return packing;
}

}  // namespace easydel

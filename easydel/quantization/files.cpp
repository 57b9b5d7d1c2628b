// Packed weights in files: bitsandbytes' names and config for nf4 and 8bit, the parameters as they are for the others.
// Dense files are packed one tensor at a time, as they are read.
#include <ATen/ATen.h>

#include <cstring>
#include <set>

#include "easydel/core/error.h"
#include "easydel/quantization/methods/nf4.h"
#include "easydel/quantization/pack.h"
#include "easydel/quantization/packed_products.h"

namespace easydel::quantization {
namespace {

constexpr std::string_view kStateName = "weight.quant_state.bitsandbytes__nf4";
constexpr int64_t kStateBytes = 320;  // the text is filled up with spaces, so that its size is known before it is

std::vector<int64_t> shape_in_file(const Part& part, const Parameter& parameter) {
  return part.file_shape.empty() ? parameter.shape : part.file_shape;
}

at::Tensor text_tensor(std::string text, int64_t size) {
  text.resize(static_cast<std::size_t>(size), ' ');
  at::Tensor bytes = at::empty({size}, at::kByte);
  std::memcpy(bytes.mutable_data_ptr(), text.data(), text.size());
  return bytes;
}

Json state_of(const at::Tensor& given, const std::string& name) {
  constexpr int64_t kLongest = 1 << 16;
  require<FormatError>(given.scalar_type() == at::kByte && given.dim() == 1 && given.numel() <= kLongest, "[\"", name,
                       "\"] is no quantization state: bytes of JSON are needed.");
  const at::Tensor bytes = given.to(at::kCPU).contiguous();
  return Json::parse({static_cast<const char*>(bytes.const_data_ptr()), static_cast<std::size_t>(bytes.numel())});
}

// Files in other terms: what each virtual tensor is made of.
struct Reader {
  WeightSource files;
  struct Virtual {
    std::vector<int64_t> shape;
    std::function<at::Tensor()> make;
  };
  std::map<std::string, Virtual> tensors;
  std::set<std::string> hidden;
  std::map<std::string, std::vector<std::string>> after;  // virtual names, by the name that they stand behind
  // The parts of the dense tensor that was packed last, each until it is taken.
  std::string packed;
  std::vector<at::Tensor> parts;
};

// The parts of a layer from the dense tensor of that name, as if files had them.
void pack_dense(const std::shared_ptr<Reader>& reader, const PackedLayer& layer, const std::string& name) {
  const std::string prefix = name.substr(0, name.size() - std::string_view("weight").size());
  const std::shared_ptr<const PackedMatrix> matrix = layer.matrix;
  const bool transposed = layer.transposed;
  std::vector<int64_t> dense{matrix->out(), matrix->in()};
  if (transposed) std::swap(dense[0], dense[1]);
  const std::vector<int64_t> found = reader->files.shape(name);
  require<FormatError>(found == dense, "[", reader->files.where, "] \"", name, "\" is ", at::IntArrayRef(found),
                       "; the config asks for ", at::IntArrayRef(dense), ".");
  for (std::size_t p = 0; p < matrix->parts().size(); ++p) {
    const Part& part = matrix->parts()[p];
    const std::string own = prefix + part.name;
    const auto make = [reader = reader.get(), matrix, transposed, name, p] {
      if (reader->packed != name) {
        // Copied past the map of the file, whose pages would stay in memory.
        at::Tensor tensor = reader->files.tensor(name);
        if (reader->files.copy) {
          const at::Tensor own = at::empty_like(tensor, at::MemoryFormat::Contiguous);
          reader->files.copy(tensor, own);
          tensor = own;
        }
        const at::Tensor whole = transposed ? tensor.t() : tensor;
        require<FormatError>(at::isFloatingType(whole.scalar_type()), "[", reader->files.where, "] \"", name,
                             "\" is no tensor of floats, and has no scales beside it.");
        reader->parts = matrix->quantized(whole, nullptr);
        reader->packed = name;
      }
      return std::exchange(reader->parts[p], at::Tensor());
    };
    reader->tensors[own] = {shape_in_file(part, *matrix->parameters()[p]), make};
    if (own != name) reader->after[name].push_back(own);
  }
}

// bitsandbytes keeps numbers and tables beside codes and scales.
void read_bitsandbytes(const std::shared_ptr<Reader>& reader, const FileNames& names, const PackedLayer& layer,
                       const std::string& name) {
  const std::string prefix = name.substr(0, name.size() - std::string_view("weight").size());
  const MethodSettings settings = layer.matrix->method().settings();
  if (settings.method == "8bit") reader->hidden.insert(prefix + "weight_format");
  if (settings.method != "nf4") return;
  for (const char* table : {"weight.quant_map", "weight.nested_quant_map"}) reader->hidden.insert(prefix + table);
  const std::string state_name = prefix + std::string(kStateName);
  reader->hidden.insert(state_name);
  require<FormatError>(names.contains(state_name), "[", reader->files.where, "] \"", name, "\" has scales but no \"",
                       state_name, "\": only nf4 is known of 4-bit files.");
  const Json state = state_of(reader->files.tensor(state_name), state_name);
  const Json* group = state.find("blocksize");
  require<FormatError>(group && *group == Json(settings.group_size), "[", reader->files.where, "] \"", state_name,
                       "\" has the blocksize ", group ? group->dump() : "of nobody", "; the scales are of ",
                       settings.group_size, ".");
  if (!settings.double_quant) return;
  const Json* offset = state.find("nested_offset");
  const Json* block = state.find("nested_blocksize");
  require<FormatError>(offset && offset->is_number() && block && *block == Json(256), "[", reader->files.where, "] \"",
                       state_name, "\" must have a nested_offset, and 256 for nested_blocksize.");
  const std::string own = prefix + "weight.nested_offset";
  reader->tensors[own] = {{1}, [value = offset->as_double()] { return at::tensor({static_cast<float>(value)}); }};
  reader->after[name].push_back(own);
}

}  // namespace

WeightSource Packing::reading(const BaseModule& module, WeightSource files) const {
  auto reader = std::make_shared<Reader>();
  const FileNames names(module, files.names);
  reader->files = files;
  for (const PackedLayer& layer : packed_layers(module)) {
    const auto name = names.find(layer.path + ".weight");
    if (!name) continue;  // missing, which is somebody else's error
    const std::string scales = name->substr(0, name->size() - 6) + layer.matrix->parts()[1].name;
    names.contains(scales) ? read_bitsandbytes(reader, names, layer, *name) : pack_dense(reader, layer, *name);
  }
  // A head that shares a packed table may stand in the files too.
  std::set<std::string> owners;
  for (const PackedLayer& layer : packed_layers(module)) owners.insert(layer.path);
  for (const auto& [path, child] : const_cast<BaseModule&>(module).named_modules()) {
    const auto* linear = dynamic_cast<const Linear*>(child);
    if (!linear || !linear->packed() || owners.contains(path)) continue;
    if (const auto name = names.find(path + ".weight")) reader->hidden.insert(*name);
  }
  WeightSource source = files;
  source.names.clear();
  for (const std::string& name : files.names) {
    if (!reader->hidden.contains(name)) source.names.push_back(name);
    if (const auto more = reader->after.find(name); more != reader->after.end())
      source.names.insert(source.names.end(), more->second.begin(), more->second.end());
  }
  source.shape = [reader](const std::string& name) {
    const auto own = reader->tensors.find(name);
    return own != reader->tensors.end() ? own->second.shape : reader->files.shape(name);
  };
  source.tensor = [reader](const std::string& name) {
    const auto own = reader->tensors.find(name);
    return own != reader->tensors.end() ? own->second.make().view(own->second.shape) : reader->files.tensor(name);
  };
  return source;
}

std::vector<FileTensor> Packing::beside(const BaseModule& module) const {
  std::vector<FileTensor> tensors;
  const auto add = [&](const std::string& name, DType dtype, std::vector<int64_t> shape, auto make) {
    TensorInfo info{.name = name, .dtype = dtype, .shape = std::move(shape)};
    info.nbytes = info.numel() * static_cast<int64_t>(c10::elementSize(dtype));
    tensors.push_back({std::move(info), std::move(make)});
  };
  using Whole = std::function<at::Tensor(const std::string&)>;
  const MethodSettings settings = method_->settings();
  for (const PackedLayer& layer : packed_layers(module)) {
    const std::string prefix = layer.path + ".";
    if (settings.method == "8bit") {
      add(prefix + "weight_format", uint8, {}, [](const Whole&) { return at::zeros({}, at::kByte); });
    }
    if (settings.method != "nf4") continue;
    add(prefix + "weight.quant_map", float32, {16}, [](const Whole&) { return nf4_table(); });
    if (settings.double_quant)
      add(prefix + "weight.nested_quant_map", float32, {256}, [](const Whole&) { return nf4_nested_map(); });
    Json state = Json::object();
    state["quant_type"] = "nf4";
    state["blocksize"] = settings.group_size;
    state["dtype"] = dtype_name(module.param_dtype());
    state["shape"] = std::vector<int64_t>{layer.matrix->out(), layer.matrix->in()};
    add(prefix + std::string(kStateName), uint8, {kStateBytes},
        [state, prefix, nested = settings.double_quant](const Whole& whole) {
          Json full = state;
          if (nested) {
            full["nested_blocksize"] = 256;
            full["nested_dtype"] = "float32";
            full["nested_offset"] = whole(prefix + "weight.nested_offset").item<double>();
          }
          return text_tensor(full.dump(), kStateBytes);
        });
  }
  return tensors;
}

void Packing::describe(const BaseModule& module, BaseConfig& config) const {
  Json json = method_->config();
  const MethodSettings settings = method_->settings();
  Json dense = Json::array();
  bool table = false;
  for (const auto& [path, child] : const_cast<BaseModule&>(module).named_modules()) {
    const auto* linear = dynamic_cast<const Linear*>(child);
    if (linear && !linear->packed()) dense.push_back(path);
    if (const auto* own = dynamic_cast<const Embedding*>(child)) table |= own->packed() != nullptr;
  }
  // bitsandbytes has no packed tables, so that transformers could not read them.
  if (table) json = method_->Method::config();
  if (json["quant_method"] == Json("bitsandbytes")) {
    json["llm_int8_threshold"] = 6.0;
    json["llm_int8_skip_modules"] = dense;
  } else if (settings.double_quant) {
    json["double_quant"] = true;
  }
  config.quantization.weights = json;
}

namespace {

// What the files have, by the tensors that are in them.
std::shared_ptr<const Packing> packing_of_files(const BaseModule& module, MethodSettings settings,
                                                const WeightSource& files) {
  const FileNames names(module, files.names);
  const std::string scale = make_method(settings)->parts(32, 4096)[1].name;
  std::vector<std::string> layers;
  std::set<const Parameter*> packed;
  for (const auto& [path, child] : const_cast<BaseModule&>(module).named_modules()) {
    const auto* linear = dynamic_cast<const Linear*>(child);
    const auto* table = dynamic_cast<const Embedding*>(child);
    if (!linear && !table) continue;
    const auto own = names.find(path + "." + scale);
    // A head that is tied to a table has no tensors of its own.
    if (own || (linear && packed.contains(linear->weight().get()))) layers.push_back(path);
    if (!own) continue;
    packed.insert((linear ? linear->weight() : table->weight()).get());
    if (settings.method == "nf4") {
      const int64_t count = c10::multiply_integers(files.shape(*own));
      const int64_t elements = linear ? linear->in_features() * linear->out_features()
                                      : table->count_dim().size * table->features_dim().size;
      require<FormatError>(count > 0 && elements % count == 0, "[", files.where, "] \"", *own, "\" has ", count,
                           " scales for ", elements, " values.");
      settings.group_size = elements / count;
      settings.double_quant = names.find(path + ".weight.nested_absmax").has_value();
    }
  }
  require<FormatError>(!layers.empty(), "[", files.where, "] config.json says that weights are quantized as ",
                       settings.method, ", but no tensor has scales.");
  return std::make_shared<Packing>(settings, std::move(layers));
}

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
    make_method(settings);
    return settings;
  }
  require<NotSupportedError>(method == "bitsandbytes", "[", where, "] the weights are quantized with \"", method,
                             "\"; known: bitsandbytes (nf4 and int8), easydel.");
  if (is_true("load_in_8bit")) return {.method = "8bit"};
  require<NotSupportedError>(text("bnb_4bit_quant_type") == "nf4", "[", where,
                             "] of bitsandbytes' 4-bit types nf4 alone is known; got \"", text("bnb_4bit_quant_type"),
                             "\".");
  return {.method = "nf4"};
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
      "\" exclude each other.");
  const std::string wanted = options.load_in_8bit ? "8bit" : options.quantization_method;
  const Json& config = module.config().quantization.weights;
  const bool from_files = config.is_object() && config.find("quant_method") != nullptr;
  if (wanted.empty()) {
    require<ConfigError>(options.bit_targeted_params.empty() && options.quantization_pattern.empty() &&
                             options.quantization_block_size == 0 && !options.quantization_double_quant,
                         "[from_pretrained] bit_targeted_params, quantization_pattern and quantization_block_size need "
                         "a quantization_method.");
    return from_files ? packing_of_files(module, settings_of(config, files.where), files) : nullptr;
  }
  require<ConfigError>(!from_files, "[from_pretrained] ", files.where, " is quantized already. Load it without ",
                       "quantization_method, or quantize the model that it was made from.");
  const QuantizeOptions asked{.method = wanted,
                              .group_size = options.quantization_block_size,
                              .pattern = options.quantization_pattern,
                              .double_quant = options.quantization_double_quant,
                              .bit_targeted_params = options.bit_targeted_params};
  const MethodSettings settings{asked.method, asked.group_size, asked.double_quant};
  require<ConfigError>(!make_method(settings)->needs_calibration(), "[from_pretrained] ", wanted,
                       " needs calibration data: load the model first, and then call quantize.");
  const std::vector<std::string> layers = layers_to_quantize(module, asked);
  return options.quantize_tensors ? std::make_shared<Packing>(settings, layers) : nullptr;
}

}  // namespace easydel

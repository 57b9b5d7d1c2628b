// Packed weights in files: bitsandbytes' names and config for nf4 and 8bit, the parameters as they are for the others.
// Dense files are packed one tensor at a time, as they are read.
#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "easydel/core/error.h"
#include "easydel/quantization/formats/decoded_source.h"
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
  constexpr int64_t kMaxLength = 1 << 16;
  require<FormatError>(given.scalar_type() == at::kByte && given.dim() == 1 && given.numel() <= kMaxLength, "[\"", name,
                       "\"] is not a quantization state: it must be JSON as bytes.");
  const at::Tensor bytes = given.to(at::kCPU).contiguous();
  return Json::parse({static_cast<const char*>(bytes.const_data_ptr()), static_cast<std::size_t>(bytes.numel())});
}

// Files in other terms: what each virtual tensor is made of.
struct Reader {
  std::shared_ptr<const TensorSource> files;
  std::shared_ptr<const DecodedSource> decoded;  // the same, when they are of a published format; null: they are not
  struct Virtual {
    DType dtype;
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

// The weight of that name, if files of a published format keep it in the way of this method; null: they do not.
const DecodedWeight* same_codes(const Reader& reader, const std::string& name, const Method& method) {
  if (!reader.decoded) return nullptr;
  const auto& weights = reader.decoded->decoding().weights;
  const auto found = weights.find(name);
  if (found == weights.end() || !found->second.method) return nullptr;
  const auto own = found->second.method();
  return own && own->settings() == method.settings() ? &found->second : nullptr;
}

// The parts of all experts, from those of the tensors that hold them.
std::vector<at::Tensor> stacked_codes(const Reader& reader, const PackedStack& stack, const FileLayout& layout) {
  std::vector<at::Tensor> all;
  for (std::size_t p = 0; p < stack.parts().size(); ++p)
    all.push_back(at::empty(stack.parameters()[p]->shape, stack.parts()[p].dtype));
  for (const FilePiece& piece : layout) {
    const std::vector<at::Tensor> parts = reader.decoded->decoding().weights.find(piece.name)->second.parts();
    for (std::size_t p = 0; p < all.size(); ++p) {
      at::Tensor into = all[p];
      if (layout.size() > 1) {
        into = into.narrow(0, piece.starts[0], piece.sizes[0]);
        const std::vector<PartDim>& dims = stack.parts()[p].dims;
        for (std::size_t d = 0; d < dims.size(); ++d) {
          if (dims[d].of != PartDim::Of::Rows) continue;  // a tensor has all columns of its rows
          into = into.narrow(static_cast<int64_t>(d) + 1, piece.starts[1] / dims[d].per, piece.sizes[1] / dims[d].per);
        }
      }
      into.copy_(parts[p].view(into.sizes()));
    }
  }
  return all;
}

// The parts of a layer from the dense tensor of that name, as if files had them.
void pack_dense(const std::shared_ptr<Reader>& reader, const PackedLayer& layer, const std::string& name) {
  const std::string prefix = name.substr(0, name.size() - std::string_view("weight").size());
  const std::shared_ptr<const PackedMatrix> matrix = layer.matrix;
  const bool transposed = layer.transposed;
  std::vector<int64_t> dense{matrix->out(), matrix->in()};
  if (transposed) std::swap(dense[0], dense[1]);
  const std::vector<int64_t>& found = reader->files->info(name).shape;
  require<FormatError>(found == dense, "[", reader->files->where(), "] \"", name, "\" is ", at::IntArrayRef(found),
                       "; the config asks for ", at::IntArrayRef(dense), ".");
  for (std::size_t p = 0; p < matrix->parts().size(); ++p) {
    const Part& part = matrix->parts()[p];
    const std::string own = prefix + part.name;
    const auto make = [reader = reader.get(), matrix, transposed, name, p] {
      if (const DecodedWeight* coded = reader->packed == name ? nullptr : same_codes(*reader, name, matrix->method())) {
        reader->parts = coded->parts();
        reader->packed = name;
      } else if (reader->packed != name) {
        // Copied past the map of the file, whose pages would stay in memory.
        const at::Tensor tensor = reader->files->read(name);
        const at::Tensor whole = transposed ? tensor.t() : tensor;
        require<FormatError>(at::isFloatingType(whole.scalar_type()), "[", reader->files->where(), "] \"", name,
                             "\" is not a floating-point tensor and has no scales.");
        reader->parts = matrix->quantized(whole, nullptr);
        reader->packed = name;
      }
      return std::exchange(reader->parts[p], at::Tensor());
    };
    reader->tensors[own] = {part.dtype, shape_in_file(part, *matrix->parameters()[p]), make};
    if (own != name) reader->after[name].push_back(own);
  }
}

// By its scales; codes that have none by their shape.
bool has_codes(const TensorSource& files, const FileNames& names, const std::string& path, const PackedStack& stack) {
  if (stack.parts().size() > 1) return names.find(path + stack.part_name(1).substr(stack.name().size())).has_value();
  const auto codes = names.find(path);
  return codes && files.info(*codes).shape == stack.parameters()[0]->shape;
}

// The parts of a stack of experts from dense tensors, which files hold one by one or stacked.
void pack_dense_experts(const std::shared_ptr<Reader>& reader, const FileNames& names, const ExpertStack& experts) {
  const std::shared_ptr<const PackedStack> stack = experts.packed();
  const Parameter& dense = stack->dense();
  for (const std::string& spelled : names.spellings(experts.path)) {
    for (const FileLayout& layout : {dense.layout_in_files(spelled), dense.whole_layout(spelled)}) {
      const bool there = !layout.empty() && std::all_of(layout.begin(), layout.end(), [&](const FilePiece& piece) {
        return names.contains(piece.name);
      });
      if (!there) continue;
      for (const FilePiece& piece : layout) {
        const std::vector<int64_t>& found = reader->files->info(piece.name).shape;
        require<FormatError>(found == piece.shape, "[", reader->files->where(), "] \"", piece.name, "\" is ",
                             at::IntArrayRef(found), "; the config asks for ", at::IntArrayRef(piece.shape), ".");
        reader->hidden.insert(piece.name);
      }
      // One expert's matrix is dense at a time, and never all of them.
      const auto expert = [reader = reader.get(), stack, layout](int64_t e) {
        const Parameter& whole = stack->dense();
        at::Tensor matrix;
        for (const FilePiece& piece : layout) {
          if (e < piece.starts[0] || e >= piece.starts[0] + piece.sizes[0]) continue;
          const at::Tensor tensor = reader->files->tensor(piece.name).view(piece.sizes).select(0, e - piece.starts[0]);
          require<FormatError>(at::isFloatingType(tensor.scalar_type()), "[", reader->files->where(), "] \"",
                               piece.name, "\" is not a floating-point tensor and has no scales.");
          if (!matrix.defined()) matrix = at::empty({whole.shape[1], whole.shape[2]}, tensor.options());
          const at::Tensor into =
              matrix.narrow(0, piece.starts[1], piece.sizes[1]).narrow(1, piece.starts[2], piece.sizes[2]);
          reader->files->copy(tensor, into);
        }
        return matrix;
      };
      const std::string key = layout.front().name;
      const bool coded = std::all_of(layout.begin(), layout.end(), [&](const FilePiece& piece) {
        return same_codes(*reader, piece.name, stack->method()) != nullptr;
      });
      for (std::size_t p = 0; p < stack->parts().size(); ++p) {
        const std::string own = spelled + stack->part_name(p).substr(stack->name().size());
        reader->tensors[own] = {stack->parts()[p].dtype, stack->parameters()[p]->shape,
                                [reader = reader.get(), stack, expert, layout, coded, key, p] {
                                  if (reader->packed != key) {
                                    reader->parts =
                                        coded ? stacked_codes(*reader, *stack, layout) : stack->quantized_all(expert);
                                    reader->packed = key;
                                  }
                                  return std::exchange(reader->parts[p], at::Tensor());
                                }};
        reader->after[key].push_back(own);
      }
      return;
    }
  }
}

// bitsandbytes stores numbers and tables in addition to codes and scales.
void read_bitsandbytes(const std::shared_ptr<Reader>& reader, const FileNames& names, const PackedLayer& layer,
                       const std::string& name) {
  const std::string prefix = name.substr(0, name.size() - std::string_view("weight").size());
  const QuantizeOptions settings = layer.matrix->method().settings();
  if (settings.method == "8bit") reader->hidden.insert(prefix + "weight_format");
  if (settings.method != "nf4") return;
  for (const char* table : {"weight.quant_map", "weight.nested_quant_map"}) reader->hidden.insert(prefix + table);
  const std::string state_name = prefix + std::string(kStateName);
  reader->hidden.insert(state_name);
  require<FormatError>(names.contains(state_name), "[", reader->files->where(), "] \"", name, "\" has scales but no \"",
                       state_name, "\": nf4 is the only supported 4-bit format.");
  const Json state = state_of(reader->files->tensor(state_name), state_name);
  const Json* group = state.find("blocksize");
  require<FormatError>(group && *group == Json(settings.group_size), "[", reader->files->where(), "] \"", state_name,
                       "\" must have the blocksize of its scales, ", settings.group_size, "; got ",
                       group ? group->dump() : "none", ".");
  if (!settings.double_quant) return;
  const Json* offset = state.find("nested_offset");
  const Json* block = state.find("nested_blocksize");
  require<FormatError>(offset && offset->is_number() && block && *block == Json(256), "[", reader->files->where(),
                       "] \"", state_name, "\" must have a nested_offset, and 256 for nested_blocksize.");
  const std::string own = prefix + "weight.nested_offset";
  reader->tensors[own] = {
      float32, {1}, [value = offset->as_double()] { return at::tensor({static_cast<float>(value)}); }};
  reader->after[name].push_back(own);
}

// What a Reader gives. Read by one thread at a time: the parts of a dense tensor are kept until each is taken.
class PackedSource final : public TensorSource {
 public:
  explicit PackedSource(std::shared_ptr<Reader> reader)
      : TensorSource(reader->files->where(), infos_of(*reader)), reader_(std::move(reader)) {}
  void copy(const at::Tensor& view, const at::Tensor& out) const override { reader_->files->copy(view, out); }

 private:
  static std::vector<TensorInfo> infos_of(const Reader& reader) {
    std::vector<TensorInfo> infos;
    const auto add = [&](TensorInfo info) {
      if (const auto made = reader.tensors.find(info.name); made != reader.tensors.end()) {
        info = {.name = info.name, .dtype = made->second.dtype, .shape = made->second.shape};
        info.nbytes = info.numel() * static_cast<int64_t>(c10::elementSize(info.dtype));
      }
      infos.push_back(std::move(info));
    };
    for (const TensorInfo& info : reader.files->infos()) {
      if (!reader.hidden.contains(info.name)) add(info);
      const auto more = reader.after.find(info.name);
      if (more == reader.after.end()) continue;
      for (const std::string& name : more->second) {
        if (reader.hidden.contains(name) || !reader.files->contains(name)) add({.name = name});
      }
    }
    return infos;
  }

  at::Tensor load(const TensorInfo& info) const override {
    const auto made = reader_->tensors.find(info.name);
    return made != reader_->tensors.end() ? made->second.make().view(info.shape) : reader_->files->tensor(info.name);
  }

  std::shared_ptr<Reader> reader_;
};

}  // namespace

std::shared_ptr<const TensorSource> Packing::adapt_source(const BaseModule& module,
                                                          std::shared_ptr<const TensorSource> files) const {
  auto reader = std::make_shared<Reader>();
  if (!format_.is_null()) {
    reader->decoded = decoded_source(format_, files, /*is_needed=*/false);  // or save_pretrained wrote them
    files = reader->decoded;
  }
  const FileNames names(module, *files);
  reader->files = files;
  for (const PackedLayer& layer : packed_layers(module)) {
    const auto name = names.find(layer.path + ".weight");
    if (!name) continue;  // missing, which is somebody else's error
    const std::vector<Part>& parts = layer.matrix->parts();
    const bool packed = parts.size() > 1 ? names.contains(name->substr(0, name->size() - 6) + parts[1].name)
                                         : files->info(*name).shape == layer.matrix->parameters()[0]->shape;
    packed ? read_bitsandbytes(reader, names, layer, *name) : pack_dense(reader, layer, *name);
  }
  for (const ExpertStack& stack : expert_stacks(module)) {
    if (const auto packed = stack.packed(); packed && !has_codes(*files, names, stack.path, *packed))
      pack_dense_experts(reader, names, stack);
  }
  // A head that shares a packed table may stand in the files too.
  std::set<std::string> owners;
  for (const PackedLayer& layer : packed_layers(module)) owners.insert(layer.path);
  for (const auto& [path, child] : module.named_modules()) {
    const auto* linear = dynamic_cast<const Linear*>(child);
    if (!linear || linear->weight() || owners.contains(path)) continue;
    if (const auto name = names.find(path + ".weight")) reader->hidden.insert(*name);
  }
  return std::make_shared<const PackedSource>(std::move(reader));
}

std::vector<FileTensor> Packing::extra_tensors(const BaseModule& module) const {
  std::vector<FileTensor> tensors;
  const auto add = [&](const std::string& name, DType dtype, std::vector<int64_t> shape, auto make) {
    TensorInfo info{.name = name, .dtype = dtype, .shape = std::move(shape)};
    info.nbytes = info.numel() * static_cast<int64_t>(c10::elementSize(dtype));
    tensors.push_back({std::move(info), std::move(make)});
  };
  using Whole = std::function<at::Tensor(const std::string&)>;
  if (mixed_ || !method_) return tensors;
  const QuantizeOptions settings = method_->settings();
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
  config.quantization.weights = Json();
  if (!method_) return;
  if (mixed_) {
    config.quantization.weights = Json::object({{"quant_method", "easydel"}, {"method", "mixed"}});
    return;
  }
  Json json = method_->config();
  const QuantizeOptions settings = method_->settings();
  Json dense = Json::array();
  bool table = false;
  for (const auto& [path, child] : module.named_modules()) {
    const auto* linear = dynamic_cast<const Linear*>(child);
    if (linear && linear->weight()) dense.push_back(path);
    if (const auto* own = dynamic_cast<const Embedding*>(child)) table |= own->packed() != nullptr;
  }
  const std::vector<ExpertStack> stacks = expert_stacks(module);
  table |= std::any_of(stacks.begin(), stacks.end(), [](const ExpertStack& s) { return s.packed() != nullptr; });
  // bitsandbytes has no packed tables or stacks, so that transformers could not read them.
  if (table) json = method_->Method::config();
  if (json["quant_method"] == Json("bitsandbytes")) {
    json["llm_int8_threshold"] = 6.0;
    json["llm_int8_skip_modules"] = dense;
  } else if (settings.double_quant) {
    json["double_quant"] = true;
  }
  config.quantization.weights = json;
}

}  // namespace easydel::quantization

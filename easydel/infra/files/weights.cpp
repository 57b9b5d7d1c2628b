#include "easydel/infra/files/weights.h"

#include <algorithm>
#include <optional>

#include "easydel/core/error.h"
#include "easydel/core/files/large_pages.h"
#include "easydel/core/log.h"
#include "easydel/core/text/quoted.h"
#include "easydel/io/read_view.h"

namespace easydel {
namespace {

// Written by old versions of transformers, and computed anew by every model.
bool is_leftover(const std::string& name) {
  for (const std::string_view end :
       {".rotary_emb.inv_freq", ".attn.bias", ".attn.masked_bias", "embeddings.position_ids"}) {
    if (name.ends_with(end)) return true;
  }
  return false;
}

std::string list_lines(const std::vector<std::string>& lines) {
  constexpr std::size_t kShown = 50;
  std::string text;
  for (std::size_t i = 0; i < std::min(lines.size(), kShown); ++i) text += "\n  " + lines[i];
  if (lines.size() > kShown) text += concat("\n  … and ", lines.size() - kShown, " more");
  return text;
}

// A parameter and the tensors that hold it.
struct Found {
  Module::NamedParameter named;
  std::size_t place = 0;   // in the files, of the first tensor
  FileLayout layout = {};  // empty: that tensor is all of it
};

// The first layout all of whose pieces are there. A spelling as files have it comes before any as memory has it: names
// of the two may be the same, of shapes that differ.
std::optional<FileLayout> find_layout(const FileNames& names, const std::string& path, const Parameter& parameter) {
  const auto all_there = [&](const FileLayout& layout) {
    return !layout.empty() &&
           std::all_of(layout.begin(), layout.end(), [&](const FilePiece& p) { return names.contains(p.name); });
  };
  const std::vector<std::string> spellings = names.spellings(path);
  for (const std::string& spelled : spellings) {
    if (FileLayout layout = parameter.layout_in_files(spelled); all_there(layout)) return layout;
  }
  for (const std::string& spelled : spellings) {
    if (FileLayout layout = parameter.whole_layout(spelled); all_there(layout)) return layout;
  }
  return std::nullopt;
}

class TensorMapSource final : public TensorSource {
 public:
  TensorMapSource(const TensorMap& map, std::string where) : TensorSource(std::move(where), infos_of(map)), map_(map) {}

 private:
  static std::vector<TensorInfo> infos_of(const TensorMap& map) {
    std::vector<TensorInfo> infos;
    for (const auto& [name, tensor] : map) {
      infos.push_back({.name = name, .dtype = tensor.scalar_type(), .shape = tensor.sizes().vec()});
      infos.back().nbytes = static_cast<int64_t>(tensor.nbytes());
    }
    return infos;
  }
  at::Tensor load(const TensorInfo& info) const override { return map_.at(info.name); }

  TensorMap map_;
};

bool overlaps(const FilePiece& piece, const Slices& held) {
  for (std::size_t d = 0; d < held.size(); ++d) {
    const bool any = std::any_of(held[d].begin(), held[d].end(), [&](const Interval& i) {
      return i.begin < piece.starts[d] + piece.sizes[d] && i.end > piece.starts[d];
    });
    if (!any) return false;
  }
  return true;
}

// Only the bytes of the part that this rank stores are touched.
at::Tensor assemble_part(const FileLayout& layout, const Parameter& parameter, const TensorSource& source) {
  const Slices& held = parameter.sharding()->stored();
  at::Tensor part;
  for (const FilePiece& piece : layout) {
    if (!overlaps(piece, held)) continue;  // of another rank: weights that are decoded as they are read cost time
    const at::Tensor tensor = source.tensor(piece.name).view(piece.sizes);
    // Rows of one tensor stay where they are: in the mapped file.
    if (layout.size() == 1 && tensor.sizes() == at::IntArrayRef(parameter.shape)) {
      const at::Tensor view = take(tensor, held);
      // Codes may have been made just now: what is not stored is to be dropped.
      if (parameter.fixed_dtype) return view.clone(at::MemoryFormat::Contiguous);
      if (view.is_contiguous()) return view;
      part = empty_in_large_pages(view.sizes(), view.options());
      source.copy(view, part);
      return part;
    }
    if (!part.defined()) part = empty_in_large_pages(parameter.stored_shape(), tensor.options());
    for_boxes(held, [&](const std::vector<Interval>& box) {
      at::Tensor from = tensor, into = part;
      for (std::size_t d = 0; d < box.size(); ++d) {
        const int64_t begin = std::max(box[d].begin, piece.starts[d]);
        const int64_t end = std::min(box[d].end, piece.starts[d] + piece.sizes[d]);
        if (begin >= end) return;
        const auto dim = static_cast<int64_t>(d);
        from = from.narrow(dim, begin - piece.starts[d], end - begin);
        into = into.narrow(dim, locate({{begin, end}}, held[d])[0].begin, end - begin);
      }
      source.copy(from, into);
    });
  }
  if (part.defined()) return part;
  return at::empty(parameter.stored_shape(), source.tensor(layout.front().name).options());  // of a rank without any
}

at::Tensor assemble_whole(const Found& found, const TensorSource& source) {
  const FileLayout& layout = found.layout;
  const std::vector<int64_t>& shape = found.named.parameter->shape;
  if (layout.empty() || (layout.size() == 1 && layout[0].shape == shape))
    return source.tensor(source.infos()[found.place]);
  at::Tensor whole;
  for (const FilePiece& piece : layout) {
    const at::Tensor part = source.tensor(piece.name);
    if (!whole.defined()) whole = empty_in_large_pages(shape, part.options());
    at::Tensor box = whole;
    for (std::size_t d = 0; d < piece.starts.size(); ++d) {
      box = box.narrow(static_cast<int64_t>(d), piece.starts[d], piece.sizes[d]);
    }
    source.copy(part.view(piece.sizes), box);
  }
  return whole;
}

at::Tensor assemble(const Found& found, const TensorSource& source) {
  const Parameter& parameter = *found.named.parameter;
  const bool whole = !parameter.sharding() || parameter.sharding()->is_whole();
  return whole ? assemble_whole(found, source) : assemble_part(found.layout, parameter, source);
}

}  // namespace

FileNames::FileNames(const BaseModule& module, const TensorSource& files) : module_(module), files_(files) {
  // A head may be loaded from the files of a base model, and a base model from those of a head: "model." is put before
  // names when the files have model.norm.weight where this base model has norm.weight.
  prefix_ = module.base_model_prefix().empty() ? "" : module.base_model_prefix() + ".";
  if (!prefix_.empty()) return;
  const auto parameters = module.named_parameters();
  if (parameters.empty() || contains(parameters.front().path)) return;
  const std::string& first = parameters.front().path;
  for (const TensorInfo& info : files.infos()) {
    if (info.name.size() > first.size() + 1 && info.name.ends_with("." + first)) {
      foreign_prefix_ = info.name.substr(0, info.name.size() - first.size());
      return;
    }
  }
}

std::vector<std::string> FileNames::spellings(const std::string& path) const {
  std::vector<std::string> all, names{path, module_.torch_path(path)};
  // What BERT's first files call the weights of norms.
  if (path.ends_with("LayerNorm.weight")) names.push_back(path.substr(0, path.size() - 6) + "gamma");
  if (path.ends_with("LayerNorm.bias")) names.push_back(path.substr(0, path.size() - 4) + "beta");
  for (const std::string& name : names) {
    all.push_back(name);
    if (!prefix_.empty() && name.starts_with(prefix_)) all.push_back(name.substr(prefix_.size()));
    if (!foreign_prefix_.empty()) all.push_back(foreign_prefix_ + name);
  }
  if (const auto* once = dynamic_cast<const OlderFileNames*>(&module_)) {
    for (std::string& name : once->older_names(path)) all.push_back(std::move(name));
  }
  return all;
}

std::optional<std::size_t> FileNames::place(std::string_view name) const {
  const TensorInfo* info = files_.find(name);
  return info ? std::optional(static_cast<std::size_t>(info - files_.infos().data())) : std::nullopt;
}

std::optional<std::string> FileNames::find(const std::string& path) const {
  for (std::string& name : spellings(path)) {
    if (contains(name)) return std::move(name);
  }
  return std::nullopt;
}

at::Tensor cut(const at::Tensor& parameter, const FilePiece& piece) {
  at::Tensor box = parameter.detach();
  for (std::size_t d = 0; d < piece.starts.size(); ++d) {
    box = box.narrow(static_cast<int64_t>(d), piece.starts[d], piece.sizes[d]);
  }
  return box.reshape(piece.shape);
}

std::vector<SavedTensor> saved_tensors(const BaseModule& module) {
  std::vector<SavedTensor> saved;
  for (const auto& [path, parameter] : module.named_parameters()) {
    for (FilePiece& piece : parameter->layout_in_files(path)) {
      TensorInfo info{.name = piece.name, .dtype = parameter->value().scalar_type(), .shape = piece.shape};
      info.nbytes = info.numel() * static_cast<int64_t>(c10::elementSize(info.dtype));
      saved.push_back({std::move(info), path, std::move(piece), parameter->fixed_dtype.has_value()});
    }
  }
  return saved;
}

LoadedWeights load_weights(const BaseModule& module, const TensorSource& source,
                           const std::function<at::Tensor(at::Tensor, const Parameter&)>& convert,
                           const ShardFns& shard_fns) {
  const at::NoGradGuard no_grad;
  std::vector<Module::NamedParameter> own = module.named_parameters();
  for (const auto& [path, fn] : shard_fns) {
    const auto is_it = [&](const Module::NamedParameter& named) { return named.path == path; };
    require<ConfigError>(std::any_of(own.begin(), own.end(), is_it), "[shard_fns] ", module.type_name(),
                         " has no parameter \"", path, "\".");
  }
  const FileNames names(module, source);
  const std::vector<TensorInfo>& infos = source.infos();
  LoadedWeights loaded;
  std::vector<bool> wanted(infos.size());  // by place
  const auto want = [&](std::size_t place, at::IntArrayRef asked) {
    wanted[place] = true;
    const at::IntArrayRef shape = infos[place].shape;
    if (shape == asked) return;
    loaded.shape_mismatches.push_back(
        concat(quoted(infos[place].name), " is ", shape, "; the config asks for ", asked));
  };
  std::vector<Found> found;
  found.reserve(own.size());
  for (Module::NamedParameter& named : own) {
    const Parameter& parameter = *named.parameter;
    // Nearly always the file has it as it is, and then no layout is made.
    const bool is_plain = !parameter.file_layout && !parameter.sharding();
    if (const auto place = is_plain ? names.place(named.path) : std::nullopt) {
      want(*place, parameter.shape);
      found.push_back({std::move(named), *place});
    } else if (auto layout = find_layout(names, named.path, parameter)) {
      for (const FilePiece& piece : *layout) want(*names.place(piece.name), piece.shape);
      const std::size_t first = *names.place(layout->front().name);
      found.push_back({std::move(named), first, std::move(*layout)});
    } else {
      loaded.missing.push_back(std::move(named.path));
    }
  }
  // A tied weight may stand in the file under its other names too.
  for (const auto& [path, first] : module.tied_parameters()) {
    for (const std::string& name : names.spellings(path)) {
      if (const auto place = names.place(name)) wanted[*place] = true;
    }
  }
  for (std::size_t i = 0; i < infos.size(); ++i) {
    if (!wanted[i] && !is_leftover(infos[i].name)) loaded.unexpected.push_back(infos[i].name);
  }
  if (!loaded.shape_mismatches.empty()) return loaded;
  // A disk is fast in the order of its files, which is not the model's.
  std::vector<std::pair<std::size_t, std::size_t>> order;  // places in the files and in `found`
  for (std::size_t i = 0; i < found.size(); ++i) order.emplace_back(found[i].place, i);
  std::sort(order.begin(), order.end());
  std::vector<at::Tensor> values(found.size());
  for (const auto& [place, i] : order) {
    const Module::NamedParameter& named = found[i].named;
    const auto custom = shard_fns.find(named.path);
    at::Tensor value;
    if (custom == shard_fns.end()) {
      value = assemble(found[i], source);
    } else {
      value = custom->second(assemble_whole(found[i], source));
      const at::IntArrayRef stored(named.parameter->stored_shape());
      require<ShapeError>(value.sizes() == stored, "[shard_fns] \"", named.path, "\" must give ", stored,
                          ", the part that this rank stores; got ", value.sizes(), ".");
    }
    values[i] = convert(std::move(value), *named.parameter);
  }
  loaded.found.reserve(found.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    loaded.found.emplace_back(std::move(found[i].named), std::move(values[i]));
  return loaded;
}

GraphState LoadedWeights::params() const {
  GraphState params;
  for (const auto& [named, tensor] : found) params.set(named.path, tensor);
  return params;
}

std::shared_ptr<const TensorSource> make_tensor_source(const TensorMap& map, std::string where) {
  return std::make_shared<const TensorMapSource>(map, std::move(where));
}

void bind_weights(BaseModule& module, LoadedWeights weights, const std::string& where) {
  const std::string prefix = module.base_model_prefix().empty() ? "" : module.base_model_prefix() + ".";
  // A pooler is a head too, inside of a base model: the files of other heads lack it.
  const bool only_head = std::none_of(weights.missing.begin(), weights.missing.end(), [&](const auto& path) {
    return path.starts_with(prefix) && path.find("pooler.dense.") == std::string::npos;
  });
  if (!weights.shape_mismatches.empty() || (!weights.missing.empty() && !only_head)) {
    const auto section = [](std::string_view what, const std::vector<std::string>& lines) {
      return lines.empty() ? std::string() : concat("\n", what, " (", lines.size(), "):", list_lines(lines));
    };
    fail<FormatError>("[", where, "] the tensors do not match ", module.type_name(), ".",
                      section("missing", weights.missing), section("with mismatched shapes", weights.shape_mismatches),
                      section("unknown", weights.unexpected));
  }
  for (auto& [named, tensor] : weights.found) named.parameter->bind(std::move(tensor));
  if (!weights.missing.empty()) {
    log::warning("[", where, "] ", module.type_name(),
                 " initializes its head randomly, since the files do not have it:", list_lines(weights.missing));
    module.initialize(module.options());
  }
  if (!weights.unexpected.empty()) {
    log::warning("[", where, "] ", weights.unexpected.size(), " tensors were not used by ", module.type_name(), ":",
                 list_lines(weights.unexpected));
  }
}

}  // namespace easydel

#include "easydel/io/torch/torch_state_dict.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <tuple>

#include "easydel/core/error.h"
#include "easydel/core/text/quoted.h"
#include "easydel/io/torch/torch_globals.h"

namespace easydel {
namespace {

constexpr std::size_t kMaxDims = 64;  // torch's own limit
constexpr std::array<std::string_view, 4> kWrappers = {"state_dict", "model_state_dict", "model", "module"};
constexpr int kMaxWrappers = 3;
constexpr std::size_t kMaxKey = 100;
constexpr int64_t kMaxRepeated = int64_t{256} << 20;  // bytes that strides of 0 may add in total

const PickleSequence* get_tuple(const PickleValue& value) {
  const PickleSequence* sequence = held<PickleSequence>(value);
  return sequence && sequence->kind == PickleSequence::Kind::Tuple ? sequence : nullptr;
}

// What a call builds, below the wrappers that say "parameter" or "tensor with attributes"; none for other values.
struct Built {
  TorchGlobal what;
  std::span<const PickleValue> arguments;
};

std::optional<Built> what_is_built(const PickleValue& value) {
  const PickleCall* call = held<PickleCall>(value);
  if (!call) return std::nullopt;
  Built built{*find_torch_global(call->callee), call->arguments->items};
  for (int wrappers = 0; built.what.kind == TorchGlobal::Kind::Parameter && wrappers < 4; ++wrappers) {
    if (built.arguments.empty()) break;
    const PickleValue& first = built.arguments[0];
    if (const PickleCall* inner = held<PickleCall>(first)) {  // _rebuild_parameter(tensor, …)
      built = {*find_torch_global(inner->callee), inner->arguments->items};
    } else if (const auto* function = held<PickleGlobal>(first)) {  // _rebuild_from_type_v2(f, type, args, …)
      const PickleSequence* arguments = built.arguments.size() > 2 ? get_tuple(built.arguments[2]) : nullptr;
      const std::optional<TorchGlobal> inner = find_torch_global(function->name);
      if (!arguments || !inner) break;
      built = {*inner, arguments->items};
    } else {
      break;
    }
  }
  using Kind = TorchGlobal::Kind;
  const bool is_tensor =
      built.what.kind == Kind::Tensor || built.what.kind == Kind::Parameter || built.what.kind == Kind::Unsupported;
  return is_tensor ? std::optional(built) : std::nullopt;
}

class StateDictReader {
 public:
  StateDictReader(const ZipArchive& zip, const std::string& directory, const std::string& where)
      : zip_(zip), data_(directory + "data/"), where_(where) {}

  std::vector<TorchTensor> read(const PickleValue& root) {
    const PickleDict& dict = find_state_dict(root);
    std::vector<std::pair<std::string_view, Built>> found;
    for (const auto& [key, value] : dict.items) {
      const std::optional<Built> built = what_is_built(value);
      if (!built) continue;
      const auto* name = held<PickleStr>(key);
      require<FormatError>(name, "[", where_, "] the keys of a state dict must be str; got ", pickle_type_name(key),
                           ".");
      found.emplace_back(name->text, *built);
    }
    refuse_repeated_names(found);
    std::vector<TorchTensor> tensors;
    tensors.reserve(found.size());
    for (const auto& [name, built] : found) tensors.push_back(read_tensor(name, built));
    return tensors;
  }

 private:
  const PickleDict& find_state_dict(const PickleValue& root) const {
    const PickleDict* dict = held<PickleDict>(root);
    require<FormatError>(dict, "[", where_, "] must contain a state dict, a dict of tensors; got ",
                         what_is_built(root) ? "one tensor" : pickle_type_name(root), ".");
    for (int level = 0;; ++level) {
      const auto is_tensor = [](const auto& item) { return what_is_built(item.second).has_value(); };
      if (dict->items.empty() || std::any_of(dict->items.begin(), dict->items.end(), is_tensor)) return *dict;
      const PickleDict* inner = level < kMaxWrappers ? find_wrapped(*dict) : nullptr;
      require<FormatError>(inner, "[", where_, "] contains no state dict: none of ", shown_keys(*dict),
                           " is a tensor.");
      dict = inner;
    }
  }

  static const PickleDict* find_wrapped(const PickleDict& dict) {
    for (const std::string_view wrapper : kWrappers) {
      for (const auto& [key, value] : dict.items) {
        const auto* name = held<PickleStr>(key);
        if (name && name->text == wrapper && held<PickleDict>(value)) return held<PickleDict>(value);
      }
    }
    return nullptr;
  }

  static std::string shown_keys(const PickleDict& dict) {
    constexpr std::size_t kShown = 5;
    std::string text;
    for (std::size_t i = 0; i < dict.items.size() && i < kShown; ++i) {
      const auto* name = held<PickleStr>(dict.items[i].first);
      text +=
          concat(i ? ", " : "", name ? concat(quoted(name->text)) : std::string(pickle_type_name(dict.items[i].first)));
    }
    return dict.items.size() > kShown ? text + ", …" : text;
  }

  // Before any name is copied: the memo can return one long name repeatedly.
  void refuse_repeated_names(const std::vector<std::pair<std::string_view, Built>>& found) const {
    std::vector<std::string_view> names;
    names.reserve(found.size());
    for (const auto& [name, built] : found) names.push_back(name);
    const auto same = [](std::string_view a, std::string_view b) {
      return a.size() == b.size() && (a.data() == b.data() || a == b);
    };
    std::sort(names.begin(), names.end(), [&](std::string_view a, std::string_view b) {
      return a.data() == b.data() ? a.size() < b.size() : a < b;
    });
    const auto twice = std::adjacent_find(names.begin(), names.end(), same);
    if (twice != names.end()) fail<FormatError>("[", where_, "] tensor ", quoted(*twice), " appears twice.");
  }

  TorchTensor read_tensor(std::string_view name, const Built& built) {
    name_ = name;
    require<NotSupportedError>(built.what.kind != TorchGlobal::Kind::Unsupported, "[", where_, "] tensor ",
                               quoted(name), " is ", built.what.trouble);
    const auto& arguments = built.arguments;
    const auto version = static_cast<std::size_t>(built.what.version);
    // v1: storage, offset, size, stride; v2 adds requires_grad, hooks, [metadata]; v3 puts a dtype before metadata.
    const std::size_t needed = version == 1 ? 4 : version == 2 ? 6 : 7;
    check(built.what.kind == TorchGlobal::Kind::Tensor && arguments.size() >= needed && arguments.size() <= needed + 1,
          "is not built as torch builds tensors.");
    TorchTensor tensor;
    tensor.info.name = name;
    read_storage(arguments[0], version == 3 ? &arguments[6] : nullptr, tensor);
    tensor.storage_offset = read_int(arguments[1], "storage offset");
    tensor.info.shape = read_ints(arguments[2], "size");
    tensor.strides = read_ints(arguments[3], "stride");
    check(tensor.info.shape.size() == tensor.strides.size(), "has ", tensor.info.shape.size(), " sizes and ",
          tensor.strides.size(), " strides.");
    if (arguments.size() > needed) refuse_lazy_bits(arguments[needed]);
    check_extent(tensor);
    return tensor;
  }

  // ('storage', torch.FloatStorage, '0', 'cpu', 24) is the entry data/0 of 24 floats.
  void read_storage(const PickleValue& value, const PickleValue* dtype, TorchTensor& tensor) const {
    const PicklePersistent* persistent = held<PicklePersistent>(value);
    const PickleSequence* id = persistent ? get_tuple(persistent->id) : nullptr;
    const bool whole = id && id->items.size() == 5;
    const auto* kind = whole ? held<PickleStr>(id->items[0]) : nullptr;
    const auto* type = whole ? held<PickleGlobal>(id->items[1]) : nullptr;
    const auto* key = whole ? held<PickleStr>(id->items[2]) : nullptr;
    const auto* count = whole ? held<int64_t>(id->items[4]) : nullptr;
    check(kind && kind->text == "storage" && type && key && count && *count >= 0,
          "has a storage that torch did not write.");
    const TorchGlobal storage = find_torch_global(type->name).value_or(TorchGlobal{});
    require<NotSupportedError>(storage.kind != TorchGlobal::Kind::Unsupported, "[", where_, "] tensor ", quoted(name_),
                               " is ", storage.trouble);
    TorchGlobal element = storage;
    if (dtype) {
      const auto* name = std::get_if<PickleGlobal>(dtype);
      element = (name ? find_torch_global(name->name) : std::nullopt).value_or(TorchGlobal{});
    }
    check(
        (storage.kind == TorchGlobal::Kind::Storage || (dtype && storage.kind == TorchGlobal::Kind::UntypedStorage)) &&
            (!dtype || element.kind == TorchGlobal::Kind::DType),
        "has an element type that torch does not have.");
    tensor.info.dtype = element.dtype;
    tensor.info.stored_as = element.dtype_name;
    const bool is_short = key->text.size() <= kMaxKey;  // a longer one is not a number, and copying it would add up
    const ZipEntry* entry = is_short ? zip_.find(data_ + std::string(key->text)) : nullptr;
    check(entry, "has its data in storage ", quoted(key->text), ", which is missing from the archive.");
    const int64_t unit = storage.kind == TorchGlobal::Kind::Storage ? dtype_bytes(storage.dtype) : 1;
    const auto size = static_cast<int64_t>(entry->size);
    check(size % unit == 0 && size / unit == *count, "has its data in storage ", quoted(key->text), " of ", entry->size,
          " bytes; the pickle says ", *count, " elements of ", unit, ".");
    tensor.storage = static_cast<std::size_t>(entry - zip_.entries().data());
  }

  void check_extent(TorchTensor& tensor) {
    const int64_t bytes = dtype_bytes(tensor.info.dtype);
    int64_t numel = 1, last = tensor.storage_offset, total = 0;
    bool overflows = false;
    const bool is_empty = std::find(tensor.info.shape.begin(), tensor.info.shape.end(), 0) != tensor.info.shape.end();
    for (std::size_t d = 0; d < tensor.strides.size(); ++d) {
      int64_t reach = 0;
      if (is_empty) continue;
      overflows |= __builtin_mul_overflow(numel, tensor.info.shape[d], &numel);
      overflows |= __builtin_mul_overflow(tensor.info.shape[d] - 1, tensor.strides[d], &reach);
      overflows |= __builtin_add_overflow(last, reach, &last);
    }
    overflows |= __builtin_mul_overflow(numel, bytes, &total);
    check(!overflows, "has a size that overflows.");
    tensor.info.nbytes = 0;
    if (is_empty) return;
    const int64_t capacity = static_cast<int64_t>(zip_.entries()[tensor.storage].size) / bytes;
    check(last < capacity, "extends to element ", last, " of a storage of ", capacity, ".");
    tensor.info.nbytes = std::min(numel, last - tensor.storage_offset + 1) * bytes;
    repeated_ += std::min(total - tensor.info.nbytes, kMaxRepeated + 1);
    check(repeated_ <= kMaxRepeated, "has ", numel, " elements in a storage of ", capacity,
          ": a stride repeats them. Call contiguous() on it before saving.");
  }

  int64_t read_int(const PickleValue& value, std::string_view what) const {
    const auto* number = held<int64_t>(value);
    check(number && *number >= 0, "must have a ", what, " of non-negative integers; got ",
          number ? concat(*number) : std::string(pickle_type_name(value)), ".");
    return *number;
  }

  std::vector<int64_t> read_ints(const PickleValue& value, std::string_view what) const {
    const PickleSequence* tuple = get_tuple(value);
    check(tuple, "must have a tuple as its ", what, "; got ", pickle_type_name(value), ".");
    check(tuple->items.size() <= kMaxDims, "has ", tuple->items.size(), " dimensions; torch allows ", kMaxDims, ".");
    std::vector<int64_t> numbers;
    numbers.reserve(tuple->items.size());
    for (const PickleValue& item : tuple->items) numbers.push_back(read_int(item, what));
    return numbers;
  }

  // {"conj": True} and {"neg": True} mark values that are yet to be conjugated or negated.
  void refuse_lazy_bits(const PickleValue& metadata) const {
    const PickleDict* dict = held<PickleDict>(metadata);
    require<NotSupportedError>(!dict || dict->items.empty(), "[", where_, "] tensor ", quoted(name_),
                               " is lazily conjugated or negated. Call resolve_conj() and resolve_neg() on it before "
                               "saving.");
  }

  template <class... Parts>
  void check(bool condition, const Parts&... parts) const {
    if (!condition) [[unlikely]]
      fail<FormatError>("[", where_, "] tensor ", quoted(name_), " ", parts...);
  }

  const ZipArchive& zip_;
  std::string data_;  // the prefix of the storages' names
  const std::string& where_;
  std::string_view name_;
  int64_t repeated_ = 0;  // bytes of the tensors beyond those of their storages
};

void find_ties(std::vector<TorchTensor>& tensors) {
  using Elements = std::tuple<std::size_t, int64_t, DType, std::vector<int64_t>, std::vector<int64_t>>;
  std::map<Elements, std::string> first_names;
  for (TorchTensor& tensor : tensors) {
    if (tensor.info.nbytes == 0) continue;
    const auto [first, is_new] = first_names.try_emplace(
        {tensor.storage, tensor.storage_offset, tensor.info.dtype, tensor.info.shape, tensor.strides},
        tensor.info.name);
    if (!is_new) tensor.info.tied_to = first->second;
  }
}

}  // namespace

std::vector<TorchTensor> read_torch_state_dict(const PickleValue& root, const ZipArchive& zip,
                                               const std::string& directory, const std::string& where) {
  std::vector<TorchTensor> tensors = StateDictReader(zip, directory, where).read(root);
  find_ties(tensors);
  return tensors;
}

}  // namespace easydel

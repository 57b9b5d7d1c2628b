#include "easydel/io/gguf/gguf.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "easydel/core/error.h"
#include "easydel/core/text/quoted.h"
#include "easydel/core/text/utf8.h"
#include "easydel/io/byte_reader.h"
#include "easydel/io/hub/lfs_pointer.h"

namespace easydel {
namespace {

constexpr std::string_view kAlignmentKey = "general.alignment";
constexpr uint32_t kDefaultAlignment = 32;
constexpr uint32_t kMaxDims = 4;
constexpr int kMaxArrayDepth = 8;
constexpr std::size_t kMinEntryBytes = 8 + 4 + 1;       // of metadata: an empty key, a type, a byte
constexpr std::size_t kMinTensorBytes = 8 + 4 + 4 + 8;  // an empty name, no dimensions, a type, an offset

class Parser {
 public:
  Parser(std::span<const std::byte> bytes, const std::string& where)
      : bytes_(bytes), where_(where), reader_(bytes, where) {}

  uint32_t read_version() {
    refuse_lfs_pointer(bytes_, where_);
    check(bytes_.size() < 4 || reader_.rest().starts_with("GGUF"),
          "is not a GGUF file: the magic number does not match.");
    reader_.take(4, "the magic number");
    const auto version = reader_.read<uint32_t>("the version");
    const bool is_swapped = (version & 0xffff) == 0 && version != 0;
    require<NotSupportedError>(!is_swapped, "[", where_,
                               "] is a big-endian GGUF file. Convert it in Python: "
                               "gguf-convert-endian path little.");
    require<NotSupportedError>(version == 2 || version == 3, "[", where_, "] is GGUF version ", version,
                               "; versions 2 and 3 are supported.");
    return version;
  }

  void read_counts() {
    tensor_count_ = reader_.read<uint64_t>("the tensor count");
    entry_count_ = reader_.read<uint64_t>("the metadata count");
    check(entry_count_ <= reader_.remaining() / kMinEntryBytes, "claims ", entry_count_,
          " metadata entries, more than fit in the ", reader_.remaining(), " bytes that follow.");
    check(tensor_count_ <= reader_.remaining() / kMinTensorBytes, "claims ", tensor_count_,
          " tensors, more than fit in the ", reader_.remaining(), " bytes that follow.");
  }

  std::vector<std::pair<std::string_view, GgufValue>> read_metadata() {
    std::vector<std::pair<std::string_view, GgufValue>> metadata;
    metadata.reserve(entry_count_);
    for (uint64_t i = 0; i < entry_count_; ++i) {
      const std::string_view key = read_string("a metadata key");
      check(!key.empty(), "has a metadata entry without a key.");
      metadata.emplace_back(key, read_value(key));
    }
    return metadata;
  }

  std::vector<GgufTensor> read_tensors(const GgufValue* alignment) {
    std::vector<GgufTensor> tensors;
    tensors.reserve(tensor_count_);
    for (uint64_t i = 0; i < tensor_count_; ++i) tensors.push_back(read_tensor());
    place(tensors, alignment);
    refuse_repeated_names(tensors);
    refuse_overlaps(tensors);
    return tensors;
  }

 private:
  template <class... Parts>
  void check(bool condition, const Parts&... parts) const {
    require<FormatError>(condition, "[", where_, "] ", parts...);
  }

  std::string_view read_string(std::string_view what) {
    const auto size = reader_.read<uint64_t>(what);
    const std::string_view text = reader_.text(size, what);
    check(invalid_utf8(text) == std::string_view::npos, "has ", what, " that is not UTF-8, at byte ",
          reader_.position() - text.size(), ".");
    return text;
  }

  GgufValueType read_type(std::string_view key) {
    const auto number = reader_.read<uint32_t>("a metadata type");
    check(number <= static_cast<uint32_t>(GgufValueType::Float64), "metadata ", quoted(key), " has the unknown type ",
          number, ".");
    return static_cast<GgufValueType>(number);
  }

  GgufValue read_value(std::string_view key) {
    const GgufValueType type = read_type(key);
    const std::string_view what = "a metadata value";
    switch (type) {
      case GgufValueType::UInt8: return {type, uint64_t{reader_.read<uint8_t>(what)}};
      case GgufValueType::UInt16: return {type, uint64_t{reader_.read<uint16_t>(what)}};
      case GgufValueType::UInt32: return {type, uint64_t{reader_.read<uint32_t>(what)}};
      case GgufValueType::UInt64: return {type, reader_.read<uint64_t>(what)};
      case GgufValueType::Int8: return {type, int64_t{reader_.read<int8_t>(what)}};
      case GgufValueType::Int16: return {type, int64_t{reader_.read<int16_t>(what)}};
      case GgufValueType::Int32: return {type, int64_t{reader_.read<int32_t>(what)}};
      case GgufValueType::Int64: return {type, reader_.read<int64_t>(what)};
      case GgufValueType::Float32: return {type, double{reader_.read<float>(what)}};
      case GgufValueType::Float64: return {type, reader_.read<double>(what)};
      case GgufValueType::Bool: return {type, read_bools(key, 1)[0] != std::byte{0}};
      case GgufValueType::String: return {type, read_string(what)};
      case GgufValueType::Array: return {type, read_array(key, 1)};
    }
    return {};
  }

  std::span<const std::byte> read_bools(std::string_view key, std::size_t count) {
    const std::span<const std::byte> values = reader_.take(count, "a metadata value");
    const bool valid = std::all_of(values.begin(), values.end(), [](std::byte b) { return b <= std::byte{1}; });
    check(valid, "metadata ", quoted(key), " has a bool that is neither 0 nor 1.");
    return values;
  }

  GgufArray read_array(std::string_view key, int depth) {
    check(depth <= kMaxArrayDepth, "metadata ", quoted(key), " nests arrays deeper than ", kMaxArrayDepth, " levels.");
    GgufArray array;
    array.type = read_type(key);
    const auto size = reader_.read<uint64_t>("an array's length");
    check(size <= reader_.remaining() / min_bytes(array.type), "metadata ", quoted(key), " claims ", size,
          " elements, more than fit in the ", reader_.remaining(), " bytes that follow.");
    array.size = size;
    if (array.type == GgufValueType::String) {
      for (std::size_t i = 0; i < size; ++i) array.strings.push_back(read_string("a metadata value"));
    } else if (array.type == GgufValueType::Array) {
      for (std::size_t i = 0; i < size; ++i) array.arrays.push_back(read_array(key, depth + 1));
    } else if (array.type == GgufValueType::Bool) {
      array.numbers = read_bools(key, size);
    } else {
      array.numbers = reader_.take(size * min_bytes(array.type), "a metadata value");
    }
    return array;
  }

  // The size of one element in the file.
  static std::size_t min_bytes(GgufValueType type) {
    switch (type) {
      case GgufValueType::UInt8:
      case GgufValueType::Int8:
      case GgufValueType::Bool: return 1;
      case GgufValueType::UInt16:
      case GgufValueType::Int16: return 2;
      case GgufValueType::UInt32:
      case GgufValueType::Int32:
      case GgufValueType::Float32: return 4;
      case GgufValueType::Array: return 12;
      default: return 8;
    }
  }

  GgufTensor read_tensor() {
    GgufTensor tensor;
    TensorInfo& info = tensor.info;
    info.name = read_string("a tensor's name");
    const Quoted name = quoted(info.name);
    const auto dims = reader_.read<uint32_t>("a tensor's dimensions");
    check(dims <= kMaxDims, "tensor ", name, " has ", dims, " dimensions; GGUF allows ", kMaxDims, ".");
    int64_t numel = 1;
    for (uint32_t d = 0; d < dims; ++d) {
      const auto size = reader_.read<int64_t>("a tensor's dimensions");
      const bool fits = size >= 0 && !__builtin_mul_overflow(numel, size, &numel);
      check(fits, "tensor ", name, " has a size that overflows.");
      info.shape.insert(info.shape.begin(), size);
    }
    const auto type = reader_.read<uint32_t>("a tensor's type");
    tensor.type = find_ggml_type(type);
    check(tensor.type, "tensor ", name, " has the unknown type ", type, ".");
    info.dtype = tensor.type->dtype;
    info.stored_as = tensor.type->name;
    const int64_t row = info.shape.empty() ? 1 : info.shape.back();
    check(row % tensor.type->block_elements == 0, "tensor ", name, " has rows of ", row, " elements; ",
          tensor.type->name, " stores them in blocks of ", tensor.type->block_elements, ".");
    int64_t bytes_as_float = 0;
    const bool fits =
        !__builtin_mul_overflow(numel / tensor.type->block_elements, tensor.type->block_bytes, &info.nbytes) &&
        !__builtin_mul_overflow(numel, int64_t{8}, &bytes_as_float);
    check(fits, "tensor ", name, " has a size that overflows.");
    info.offset = reader_.read<int64_t>("a tensor's offset");
    return tensor;
  }

  // Converts offsets from the start of the data to offsets from the start of the file.
  void place(std::vector<GgufTensor>& tensors, const GgufValue* given) const {
    uint64_t alignment = kDefaultAlignment;
    if (given) {
      check(given->type == GgufValueType::UInt32, kAlignmentKey, " must be a uint32; got ",
            gguf_value_type_name(given->type), ".");
      alignment = std::get<uint64_t>(given->value);
      check(std::has_single_bit(alignment), kAlignmentKey, " must be a power of two; got ", alignment, ".");
    }
    const uint64_t start = (reader_.position() + alignment - 1) / alignment * alignment;
    const uint64_t size = bytes_.size() > start ? bytes_.size() - start : 0;
    for (GgufTensor& tensor : tensors) {
      TensorInfo& info = tensor.info;
      const auto offset = static_cast<uint64_t>(info.offset);
      check(offset % alignment == 0, "tensor ", quoted(info.name), " is at offset ", offset,
            ", which is not a multiple of the alignment ", alignment, ".");
      check(offset <= size && static_cast<uint64_t>(info.nbytes) <= size - offset, "tensor ", quoted(info.name),
            " has ", info.nbytes, " bytes at offset ", offset, "; the file has ", size, " bytes of data.");
      info.offset = static_cast<int64_t>(start + offset);
    }
  }

  void refuse_repeated_names(const std::vector<GgufTensor>& tensors) const {
    std::vector<std::string_view> names;
    names.reserve(tensors.size());
    for (const GgufTensor& tensor : tensors) names.push_back(tensor.info.name);
    std::sort(names.begin(), names.end());
    const auto twice = std::adjacent_find(names.begin(), names.end());
    if (twice != names.end()) fail<FormatError>("[", where_, "] tensor ", quoted(*twice), " appears twice.");
  }

  void refuse_overlaps(const std::vector<GgufTensor>& tensors) const {
    std::vector<const TensorInfo*> order;
    for (const GgufTensor& tensor : tensors) {
      if (tensor.info.nbytes > 0) order.push_back(&tensor.info);
    }
    std::sort(order.begin(), order.end(),
              [](const TensorInfo* a, const TensorInfo* b) { return a->offset < b->offset; });
    for (std::size_t i = 1; i < order.size(); ++i) {
      const TensorInfo &a = *order[i - 1], &b = *order[i];
      check(a.offset + a.nbytes <= b.offset, "tensors ", quoted(a.name), " and ", quoted(b.name), " overlap.");
    }
  }

  std::span<const std::byte> bytes_;
  const std::string& where_;
  ByteReader reader_;
  uint64_t tensor_count_ = 0;
  uint64_t entry_count_ = 0;
};

}  // namespace

GgufContainer::GgufContainer(std::span<const std::byte> bytes, const std::string& where) {
  Parser parser(bytes, where);
  version_ = parser.read_version();
  parser.read_counts();
  metadata_ = parser.read_metadata();
  by_key_.resize(metadata_.size());
  std::iota(by_key_.begin(), by_key_.end(), std::size_t{0});
  const auto key = [&](std::size_t i) { return metadata_[i].first; };
  std::sort(by_key_.begin(), by_key_.end(), [&](std::size_t a, std::size_t b) { return key(a) < key(b); });
  const auto twice = std::adjacent_find(by_key_.begin(), by_key_.end(),
                                        [&](std::size_t a, std::size_t b) { return key(a) == key(b); });
  if (twice != by_key_.end()) fail<FormatError>("[", where, "] metadata ", quoted(key(*twice)), " appears twice.");
  tensors_ = parser.read_tensors(find(kAlignmentKey));
}

const GgufValue* GgufContainer::find(std::string_view key) const {
  const auto it = std::lower_bound(by_key_.begin(), by_key_.end(), key,
                                   [&](std::size_t i, std::string_view wanted) { return metadata_[i].first < wanted; });
  return it != by_key_.end() && metadata_[*it].first == key ? &metadata_[*it].second : nullptr;
}

}  // namespace easydel

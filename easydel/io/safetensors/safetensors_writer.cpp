#include "easydel/io/safetensors/safetensors_writer.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/core/json/json.h"
#include "easydel/core/text/quoted.h"
#include "easydel/core/text/utf8.h"
#include "easydel/io/safetensors/safetensors_dtype.h"

namespace easydel {
namespace {

void check(const std::vector<TensorInfo>& tensors, const SafetensorsMetadata& metadata, const std::string& where) {
  for (const auto& [key, value] : metadata) {
    require<ConfigError>(invalid_utf8(key + value) == std::string::npos, "[", where, "] metadata must be UTF-8; got \"",
                         key, "\": \"", value, "\".");
  }
  std::unordered_set<std::string_view> seen;
  for (const TensorInfo& info : tensors) {
    require<ConfigError>(invalid_utf8(info.name) == std::string::npos, "[", where, "] tensor names must be UTF-8; got ",
                         quoted(info.name), ".");
    require<ConfigError>(info.name != "__metadata__", "[", where, "] \"__metadata__\" cannot be the name of a tensor.");
    require<ConfigError>(seen.insert(info.name).second, "[", where, "] tensor names must be unique; got ",
                         quoted(info.name), " twice.");
    require<NotSupportedError>(!info.shape.empty() || !safetensors_dtype(info.dtype).is_packed(), "[", where,
                               "] tensor ", quoted(info.name),
                               " is a scalar of two packed values, which the format cannot represent.");
  }
}

// In the order of the file, with offsets from the start of the data.
void lay_out(std::vector<TensorInfo>& tensors) {
  // The table lists the types in the order of the file, so entries compare by address.
  std::sort(tensors.begin(), tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
    return std::pair(&safetensors_dtype(a.dtype), std::string_view(a.name)) <
           std::pair(&safetensors_dtype(b.dtype), std::string_view(b.name));
  });
  int64_t offset = 0;
  for (TensorInfo& info : tensors) {
    info.offset = offset;
    info.nbytes = info.numel() * safetensors_dtype(info.dtype).bytes;
    offset += info.nbytes;
  }
}

std::string format_shape(const TensorInfo& info) {
  std::string text = "[";
  for (std::size_t d = 0; d < info.shape.size(); ++d) {
    const bool doubled = d + 1 == info.shape.size() && safetensors_dtype(info.dtype).is_packed();
    text += concat(d ? "," : "", doubled ? 2 * info.shape[d] : info.shape[d]);
  }
  return text + "]";
}

// The length and the JSON, padded with spaces so that the data begins at a multiple of 8.
std::string format_header(const std::vector<TensorInfo>& tensors, const SafetensorsMetadata& metadata) {
  std::string json = "{";
  if (!metadata.empty()) {
    json += "\"__metadata__\":{";
    for (const auto& [key, value] : metadata) {
      json += (json.back() == '{' ? "" : ",") + Json(key).dump() + ":" + Json(value).dump();
    }
    json += '}';
  }
  for (const TensorInfo& info : tensors) {
    json += concat(json.size() == 1 ? "" : ",", Json(info.name).dump(), ":{\"dtype\":\"",
                   safetensors_dtype(info.dtype).name, "\",\"shape\":", format_shape(info), ",\"data_offsets\":[",
                   info.offset, ",", info.offset + info.nbytes, "]}");
  }
  json += '}';
  json.append((8 - json.size() % 8) % 8, ' ');
  std::string length(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) length[i] = static_cast<char>(json.size() >> (8 * i));
  return length + json;
}

void write_tensor(AtomicFile& file, const TensorInfo& info, at::Tensor tensor, const std::string& where) {
  require<ShapeError>(tensor.scalar_type() == info.dtype && tensor.sizes() == info.shape, "[", where, "] tensor ",
                      quoted(info.name), " was announced as ", c10::toString(info.dtype), " ",
                      at::IntArrayRef(info.shape), "; got ", c10::toString(tensor.scalar_type()), " ", tensor.sizes(),
                      ".");
  require<NotSupportedError>(tensor.layout() == at::kStrided, "[", where, "] tensor ", quoted(info.name), " is ",
                             tensor.layout(), "; safetensors stores dense tensors only. Call to_dense() first.");
  require<NotSupportedError>(!tensor.is_meta(), "[", where, "] tensor ", quoted(info.name),
                             " is on the meta device and has no data.");
  tensor = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous();
  file.write(tensor.const_data_ptr(), static_cast<std::size_t>(info.nbytes));
}

}  // namespace

TensorInfo describe(const std::string& name, const at::Tensor& tensor) {
  const SafetensorsDType& dtype = safetensors_dtype(tensor.scalar_type());
  return {.name = name,
          .dtype = dtype.dtype,
          .stored_as = std::string(dtype.name),
          .shape = tensor.sizes().vec(),
          .nbytes = tensor.numel() * dtype.bytes};
}

void save_safetensors(const std::filesystem::path& path, std::vector<TensorInfo> tensors, const TensorProducer& produce,
                      const SafetensorsMetadata& metadata) {
  const std::string where = path.string();
  check(tensors, metadata, where);
  lay_out(tensors);
  const std::string header = format_header(tensors, metadata);
  require<ConfigError>(header.size() - 8 <= kMaxSafetensorsHeader, "[", where, "] the names, shapes and metadata of ",
                       tensors.size(), " tensors need a header of ", header.size() - 8, " bytes; the limit is ",
                       kMaxSafetensorsHeader, ". Save them in several files.");
  AtomicFile file(path);
  file.write(header.data(), header.size());
  for (const TensorInfo& info : tensors) write_tensor(file, info, produce(info), where);
  file.commit();
}

void save_safetensors(const std::filesystem::path& path, const NamedTensors& tensors,
                      const SafetensorsMetadata& metadata) {
  std::vector<TensorInfo> infos;
  std::unordered_map<std::string_view, const at::Tensor*> by_name;
  for (const auto& [name, tensor] : tensors) {
    infos.push_back(describe(name, tensor));
    by_name.emplace(name, &tensor);
  }
  save_safetensors(path, std::move(infos), [&](const TensorInfo& info) { return *by_name.at(info.name); }, metadata);
}

}  // namespace easydel

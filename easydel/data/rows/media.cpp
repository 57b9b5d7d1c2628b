#include "easydel/data/rows/media.h"

#include <string_view>

#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/io/hub/base64.h"

namespace easydel::data {
namespace {

namespace fs = std::filesystem;

std::string shortened(const std::string& text) { return text.size() > 60 ? text.substr(0, 60) + "…" : text; }

std::string uri_bytes(const Row& row, std::string_view uri, const std::string& name) {
  const std::size_t comma = uri.find(',');
  const bool is_base64 = comma != std::string_view::npos && uri.substr(0, comma).ends_with(";base64");
  auto bytes = is_base64 ? base64_decode(uri.substr(comma + 1)) : std::nullopt;
  require<FormatError>(bytes.has_value(), "[", row.place(), "] \"", name,
                       "\" is a data URI and must be data:…;base64,…; got \"", shortened(std::string(uri)), "\".");
  return *std::move(bytes);
}

}  // namespace

std::string media_bytes(const Row& row, const Json& value, const std::string& name) {
  if (value.is_object()) {
    const Json *bytes = value.find("bytes"), *path = value.find("path");
    if (bytes && bytes->is_string()) {
      auto decoded = base64_decode(bytes->as_string());
      require<FormatError>(decoded.has_value(), "[", row.place(), "] \"", name, ".bytes\" must be bytes, or base64.");
      return *std::move(decoded);
    }
    if (path && path->is_string()) return media_bytes(row, *path, name);
  }
  require<FormatError>(value.is_string() && !value.as_string().empty(), "[", row.place(), "] \"", name,
                       "\" must be a path, a data URI, base64, or an object with bytes or a path; got ",
                       value.type_name(), ".");
  const std::string& text = value.as_string();
  if (text.starts_with("data:")) return uri_bytes(row, text, name);
  std::error_code ignored;
  const fs::path file = row.source ? row.source->folder(row.index) / text : fs::path(text);
  if (text.size() < 4096 && fs::is_regular_file(file, ignored)) return read_file(file);
  // Of a short text a file name is meant, not four bytes.
  constexpr std::size_t kMinBase64 = 32;
  if (text.size() >= kMinBase64) {
    if (auto bytes = base64_decode(text)) return *std::move(bytes);
  }
  fail<FormatError>("[", row.place(), "] \"", name, "\" names no file: ", shortened(file.string()), ".");
}

}  // namespace easydel::data

#include "easydel/io/safetensors/safetensors_header.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <optional>
#include <utility>

#include "easydel/core/error.h"
#include "easydel/core/json/json.h"
#include "easydel/core/text/name_index.h"
#include "easydel/core/text/quoted.h"
#include "easydel/core/text/utf8.h"
#include "easydel/io/hub/lfs_pointer.h"
#include "easydel/io/safetensors/safetensors_dtype.h"

namespace easydel {
namespace {

constexpr std::size_t kPrefix = 8;  // the header's length, little-endian
constexpr std::string_view kMetadataKey = "__metadata__";

// The text at a position in the header, for messages.
struct Found {
  std::string_view text;
  std::size_t at;
};

std::ostream& operator<<(std::ostream& out, const Found& found) {
  if (found.at >= found.text.size()) return out << "the end of the header";
  const unsigned char c = found.text[found.at];
  return c >= 0x20 && c < 0x7f ? out << "'" << c << "'" : out << "the byte " << int{c};
}

// Parses only the JSON structure of a header, without building intermediate values: the result is smaller than the
// text, whatever the text is.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& where) : text_(text), where_(where) {}

  SafetensorsHeader parse() {
    skip_space();
    require<FormatError>(peek() == '{', "[", where_, "] the header must be a JSON object; it begins with ", here(),
                         ".");
    tensors_.reserve(text_.size() / sizeof(TensorInfo));  // no more memory than the text
    bool has_metadata = false;
    parse_object([&](std::string_view key) {
      if (key == kMetadataKey) {
        refuse_if(has_metadata, "the header has ", quoted(key), " twice.");
        has_metadata = true;
        parse_metadata();
      } else {
        parse_tensor(std::string(key));
      }
    });
    skip_space();
    if (at_ != text_.size()) fail_here("expected the end of the header");
    return {std::move(tensors_), std::move(metadata_)};
  }

 private:
  template <class... Parts>
  void refuse_if(bool condition, const Parts&... parts) const {
    require<FormatError>(!condition, "[", where_, "] ", parts...);
  }

  template <class... Parts>
  [[noreturn]] void fail_with(const Parts&... parts) const {
    fail<FormatError>("[", where_, "] ", parts...);
  }

  Found here() const { return {text_, at_}; }

  [[noreturn]] void fail_here(std::string_view expected) const {
    fail<FormatError>("[", where_, "] the header is not valid JSON: ", expected, " at byte ", at_, "; got ", here(),
                      ".");
  }

  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  void skip_space() {
    while (peek() == ' ' || peek() == '\n' || peek() == '\r' || peek() == '\t') ++at_;
  }

  bool take(char c) {
    skip_space();
    if (peek() != c) return false;
    ++at_;
    return true;
  }

  // Calls `on_key` with each key, positioned before its value. A key is valid until the next string is parsed.
  template <class OnKey>
  void parse_object(OnKey on_key) {
    if (!take('{')) fail_here("expected '{'");
    if (take('}')) return;
    do {
      skip_space();
      if (peek() != '"') fail_here("expected a key in quotes");
      const std::string_view key = parse_string();
      if (!take(':')) fail_here("expected ':' after a key");
      skip_space();
      on_key(key);
    } while (take(','));
    if (!take('}')) fail_here("expected ',' or '}'");
  }

  std::string_view parse_string() {  // valid until the next call
    const std::size_t start = at_++;
    const auto is_plain = [](unsigned char c) { return c >= 0x20 && c != '\\'; };
    const std::string_view plain = text_.substr(at_, text_.find('"', at_) - at_);
    if (plain.size() < text_.size() - at_ && std::all_of(plain.begin(), plain.end(), is_plain)) {
      at_ += plain.size() + 1;
      return plain;
    }
    for (; at_ < text_.size() && text_[at_] != '"'; ++at_) {
      if (static_cast<unsigned char>(text_[at_]) < 0x20) fail_here("expected no control character in a string");
      if (text_[at_] == '\\') ++at_;
    }
    if (at_ >= text_.size()) fail_here("expected the closing quote of a string");
    ++at_;
    unescaped_ =
        Json::parse(text_.substr(start, at_ - start), {.where = concat(where_, ", header byte ", start)}).as_string();
    return unescaped_;
  }

  // Nullopt unless a non-negative integer below 2^63 follows.
  std::optional<int64_t> parse_size() {
    skip_space();
    int64_t value = 0;
    const char* first = text_.data() + at_;
    const auto [end, code] = std::from_chars(first, text_.data() + text_.size(), value);
    if (code != std::errc() || *first == '-' || (*first == '0' && end - first > 1)) return std::nullopt;
    const bool is_float = end != text_.data() + text_.size() && (*end == '.' || *end == 'e' || *end == 'E');
    if (is_float) return std::nullopt;
    at_ += end - first;
    return value;
  }

  // Valid until the next call.
  const std::vector<int64_t>& parse_sizes(std::string_view field, const std::string& name, std::string_view rule) {
    const auto refuse = [&] {
      const std::size_t end = std::min(text_.find_first_of(",]} \n\r\t", at_), text_.size());
      fail_with("tensor ", quoted(name), ": ", field, " must be ", rule, "; got ", quoted(text_.substr(at_, end - at_)),
                ".");
    };
    sizes_.clear();
    if (!take('[')) refuse();
    if (take(']')) return sizes_;
    do {
      const std::optional<int64_t> size = parse_size();
      if (!size) refuse();
      sizes_.push_back(*size);
    } while (take(','));
    if (!take(']')) fail_here("expected ',' or ']'");
    return sizes_;
  }

  void parse_metadata() {
    if (text_.substr(at_).starts_with("null")) {  // the reference treats it as absent
      at_ += 4;
      return;
    }
    refuse_if(peek() != '{', kMetadataKey, " must be a JSON object; it begins with ", here(), ".");
    parse_object([&](std::string_view given) {
      const std::string key(given);
      refuse_if(peek() != '"', kMetadataKey, ": ", quoted(key), " must be a string; it begins with ", here(), ".");
      const bool is_new = metadata_.emplace(key, parse_string()).second;
      refuse_if(!is_new, kMetadataKey, " has ", quoted(key), " twice.");
    });
  }

  void parse_tensor(std::string name) {
    refuse_if(peek() != '{', "tensor ", quoted(name), " must be a JSON object; it begins with ", here(), ".");
    const SafetensorsDType* dtype = nullptr;
    std::optional<std::vector<int64_t>> shape;
    std::optional<std::array<int64_t, 2>> offsets;
    const auto once = [&](bool seen, std::string_view field) {
      refuse_if(seen, "tensor ", quoted(name), " has ", field, " twice.");
    };
    parse_object([&](std::string_view field) {
      if (field == "dtype") {
        once(dtype != nullptr, field);
        dtype = parse_dtype(name);
      } else if (field == "shape") {
        once(shape.has_value(), field);
        shape = parse_sizes(field, name, "a list of integers from 0 to 2^63 - 1");
      } else if (field == "data_offsets") {
        once(offsets.has_value(), field);
        constexpr std::string_view kRule = "two integers from 0 to 2^63 - 1";
        const std::vector<int64_t>& given = parse_sizes(field, name, kRule);
        refuse_if(given.size() != 2, "tensor ", quoted(name), ": data_offsets must be ", kRule, "; got ", given.size(),
                  ".");
        offsets = {given[0], given[1]};
      } else {
        fail_with("tensor ", quoted(name), ": unknown field ", quoted(field), "; known: dtype, shape, data_offsets.");
      }
    });
    const std::string_view missing = !dtype ? "dtype" : !shape ? "shape" : !offsets ? "data_offsets" : "";
    refuse_if(!missing.empty(), "tensor ", quoted(name), " has no ", missing, ".");
    tensors_.push_back({.name = std::move(name),
                        .dtype = dtype->dtype,
                        .stored_as = std::string(dtype->name),
                        .shape = std::move(*shape),
                        .offset = offsets->at(0),
                        .nbytes = offsets->at(1) - offsets->at(0)});
    check(tensors_.back(), *dtype);
  }

  const SafetensorsDType* parse_dtype(const std::string& name) {
    refuse_if(peek() != '"', "tensor ", quoted(name), ": dtype must be a string; it begins with ", here(), ".");
    const std::string_view text = parse_string();
    if (const SafetensorsDType* dtype = find_safetensors_dtype(text)) return dtype;
    require<NotSupportedError>(text != "F6_E2M3" && text != "F6_E3M2", "[", where_, "] tensor ", quoted(name), " is ",
                               text, ", which torch has no type for.");
    std::string known;
    for (const SafetensorsDType& dtype : safetensors_dtypes()) known += concat(known.empty() ? "" : ", ", dtype.name);
    fail_with("tensor ", quoted(name), ": unknown dtype ", quoted(text), "; known: ", known, ".");
  }

  // Checks that one tensor's fields agree; the offsets of all are checked afterwards.
  void check(TensorInfo& info, const SafetensorsDType& dtype) const {
    refuse_if(info.nbytes < 0, "tensor ", quoted(info.name), ": data_offsets must not decrease; got [", info.offset,
              ", ", info.offset + info.nbytes, "].");
    if (dtype.is_packed()) {
      refuse_if(info.shape.empty() || info.shape.back() % 2 != 0, "tensor ", quoted(info.name),
                ": the last dimension of ", dtype.name, " must be even, because two values share a byte.");
      info.shape.back() /= 2;
    }
    // Torch computes strides over all dimensions, so that even an empty tensor must not overflow.
    int64_t elements = 1;
    bool fits = true;
    bool empty = false;
    for (const int64_t size : info.shape) {
      empty |= size == 0;
      fits = fits && !__builtin_mul_overflow(elements, std::max<int64_t>(size, 1), &elements);
    }
    int64_t nbytes = 0;
    fits = fits && !__builtin_mul_overflow(elements, dtype.bytes, &nbytes);
    refuse_if(!fits, "tensor ", quoted(info.name), ": the product of its shape does not fit in 63 bits.");
    if (empty) nbytes = 0;
    refuse_if(nbytes != info.nbytes, "tensor ", quoted(info.name), ": its shape and dtype ", dtype.name, " need ",
              nbytes, " bytes; data_offsets span ", info.nbytes, ".");
  }

  std::string_view text_;
  const std::string& where_;
  std::size_t at_ = 0;
  std::string unescaped_;       // the last string that had escapes
  std::vector<int64_t> sizes_;  // the last that were parsed
  std::vector<TensorInfo> tensors_;
  SafetensorsMetadata metadata_;
};

void check_names(const std::vector<TensorInfo>& tensors, const std::string& where) {
  const auto repeated = NameIndex(tensors, &TensorInfo::name).find_repeated();
  require<FormatError>(!repeated, "[", where, "] tensor ", quoted(repeated.value_or("")),
                       " appears twice in the header.");
}

// The tensors must cover the data exactly, one after the other.
void check_cover(const std::vector<TensorInfo>& tensors, int64_t data_size, const std::string& where) {
  int64_t end = 0;
  const TensorInfo* last = nullptr;
  for (const TensorInfo& info : tensors) {
    require<FormatError>(info.offset <= data_size && info.nbytes <= data_size - info.offset, "[", where, "] tensor ",
                         quoted(info.name), " ends at byte ", info.offset + info.nbytes, " of the data, which has ",
                         data_size, ". The file is truncated or damaged.");
    require<FormatError>(info.offset >= end, "[", where, "] tensor ", quoted(info.name), " begins at byte ",
                         info.offset, " of the data, inside ", quoted(last ? std::string_view(last->name) : ""),
                         ", which ends at ", end, ".");
    require<FormatError>(info.offset == end, "[", where, "] bytes ", end, " to ", info.offset,
                         " of the data, before tensor ", quoted(info.name), ", belong to no tensor.");
    end = info.offset + info.nbytes;
    last = &info;
  }
  require<FormatError>(end == data_size, "[", where, "] the last ", data_size - end,
                       " bytes of the data belong to no tensor.");
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::span<const std::byte> file, const std::string& where) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  refuse_lfs_pointer(file, where);
  require<FormatError>(text.size() >= kPrefix, "[", where,
                       "] a safetensors file must begin with 8 bytes for the length of its header; got ", text.size(),
                       " bytes in total.");
  uint64_t length = 0;
  for (std::size_t i = kPrefix; i-- > 0;) length = length << 8 | static_cast<unsigned char>(text[i]);
  require<FormatError>(length <= kMaxSafetensorsHeader, "[", where,
                       "] the header of a safetensors file must have at most ", kMaxSafetensorsHeader,
                       " bytes; this one claims ", length, ". The file is damaged or in another format.");
  require<FormatError>(length <= text.size() - kPrefix, "[", where, "] the header claims ", length, " bytes, but ",
                       text.size() - kPrefix, " follow. The file is truncated or in another format.");
  const std::string_view json = text.substr(kPrefix, length);
  const std::size_t bad = invalid_utf8(json);
  require<FormatError>(bad == std::string_view::npos, "[", where, "] the header must be UTF-8; byte ", bad,
                       " of it is not.");

  SafetensorsHeader header = HeaderParser(json, where).parse();
  check_names(header.tensors, where);
  const auto is_before = [](const TensorInfo& a, const TensorInfo& b) {
    return std::pair(a.offset, a.nbytes) < std::pair(b.offset, b.nbytes);
  };
  if (!std::is_sorted(header.tensors.begin(), header.tensors.end(), is_before)) {
    std::stable_sort(header.tensors.begin(), header.tensors.end(), is_before);
  }
  const int64_t data_start = static_cast<int64_t>(kPrefix + length);
  check_cover(header.tensors, static_cast<int64_t>(file.size()) - data_start, where);
  for (TensorInfo& info : header.tensors) info.offset += data_start;
  return header;
}

}  // namespace easydel

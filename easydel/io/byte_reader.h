// A cursor over untrusted little-endian bytes.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "easydel/core/error.h"

namespace easydel {

static_assert(std::endian::native == std::endian::little,
              "files are read without byte swapping, in little-endian order");

class ByteReader {
 public:
  // `where` is named in errors and `noun` says what ended too early: "file", "pickle". Both must outlive the reader.
  ByteReader(std::span<const std::byte> bytes, std::string_view where, std::string_view noun = "file")
      : bytes_(bytes), where_(where), noun_(noun) {}

  std::size_t position() const { return position_; }
  std::size_t remaining() const { return bytes_.size() - position_; }
  std::string_view rest() const { return {reinterpret_cast<const char*>(bytes_.data()) + position_, remaining()}; }

  // Each throws FormatError when too few bytes remain: "[model.gguf] the file ends at byte 24, inside the key count."
  template <class T>
  T read(std::string_view what) {
    T value;
    std::memcpy(&value, take(sizeof(T), what).data(), sizeof(T));
    return value;
  }
  std::string_view text(uint64_t size, std::string_view what) {
    const std::span<const std::byte> bytes = take(size, what);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  std::span<const std::byte> take(uint64_t size, std::string_view what) {
    require<FormatError>(size <= remaining(), "[", where_, "] the ", noun_, " ends at byte ", bytes_.size(),
                         ", inside ", what, ".");
    const std::span<const std::byte> taken = bytes_.subspan(position_, static_cast<std::size_t>(size));
    position_ += taken.size();
    return taken;
  }

 private:
  std::span<const std::byte> bytes_;
  std::string_view where_;
  std::string_view noun_;
  std::size_t position_ = 0;
};

}  // namespace easydel

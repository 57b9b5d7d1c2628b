// Messages of protobuf, field by field, as the files of trackers hold them.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

namespace easydel::protobuf {

enum class Wire : uint32_t { Varint = 0, Fixed64 = 1, Bytes = 2, Fixed32 = 5 };

inline void append_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

inline void append_key(std::string& out, uint32_t field, Wire type) {
  append_varint(out, field << 3 | static_cast<uint32_t>(type));
}

template <class Unsigned>
void append_little_endian(std::string& out, Unsigned value) {
  for (std::size_t i = 0; i < sizeof value; ++i) out += static_cast<char>(value >> (8 * i));
}

inline std::string varint_field(uint32_t field, uint64_t value) {
  std::string out;
  append_key(out, field, Wire::Varint);
  append_varint(out, value);
  return out;
}

inline std::string bytes_field(uint32_t field, std::string_view bytes) {
  std::string out;
  append_key(out, field, Wire::Bytes);
  append_varint(out, bytes.size());
  return out.append(bytes);
}

inline std::string float_field(uint32_t field, float value) {
  std::string out;
  append_key(out, field, Wire::Fixed32);
  append_little_endian(out, std::bit_cast<uint32_t>(value));
  return out;
}

inline std::string double_field(uint32_t field, double value) {
  std::string out;
  append_key(out, field, Wire::Fixed64);
  append_little_endian(out, std::bit_cast<uint64_t>(value));
  return out;
}

}  // namespace easydel::protobuf

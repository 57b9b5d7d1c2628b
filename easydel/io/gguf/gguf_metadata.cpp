#include "easydel/io/gguf/gguf_metadata.h"

#include <cstring>

namespace easydel {
namespace {

template <class T>
void put_number(std::string& to, T value) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  to.append(bytes, sizeof(T));
}

void put_string(std::string& to, std::string_view text) {
  put_number<uint64_t>(to, text.size());
  to.append(text);
}

}  // namespace

void GgufMetadata::key(std::string_view name, GgufValueType type) {
  put_string(bytes_, name);
  put_number(bytes_, static_cast<uint32_t>(type));
  ++count_;
}

void GgufMetadata::add(std::string_view name, uint32_t value) {
  key(name, GgufValueType::UInt32);
  put_number(bytes_, value);
}

void GgufMetadata::add(std::string_view name, float value) {
  key(name, GgufValueType::Float32);
  put_number(bytes_, value);
}

void GgufMetadata::add(std::string_view name, bool value) {
  key(name, GgufValueType::Bool);
  put_number(bytes_, static_cast<uint8_t>(value));
}

void GgufMetadata::add(std::string_view name, std::string_view value) {
  key(name, GgufValueType::String);
  put_string(bytes_, value);
}

void GgufMetadata::add(std::string_view name, const std::vector<std::string>& values) {
  key(name, GgufValueType::Array);
  put_number(bytes_, static_cast<uint32_t>(GgufValueType::String));
  put_number<uint64_t>(bytes_, values.size());
  for (const std::string& value : values) put_string(bytes_, value);
}

void GgufMetadata::add(std::string_view name, const std::vector<float>& values) {
  key(name, GgufValueType::Array);
  put_number(bytes_, static_cast<uint32_t>(GgufValueType::Float32));
  put_number<uint64_t>(bytes_, values.size());
  for (const float value : values) put_number(bytes_, value);
}

void GgufMetadata::add(std::string_view name, const std::vector<int32_t>& values) {
  key(name, GgufValueType::Array);
  put_number(bytes_, static_cast<uint32_t>(GgufValueType::Int32));
  put_number<uint64_t>(bytes_, values.size());
  for (const int32_t value : values) put_number(bytes_, value);
}

}  // namespace easydel

#include <array>
#include <cstring>
#include <limits>

#include "easydel/core/error.h"
#include "easydel/io/gguf/gguf.h"

namespace easydel {
namespace {

Json to_json(uint64_t number) {
  constexpr auto kMax = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  return number <= kMax ? Json(static_cast<int64_t>(number)) : Json(static_cast<double>(number));
}

template <class T>
Json number_at(const GgufArray& array, std::size_t index) {
  T number;
  std::memcpy(&number, array.numbers.data() + index * sizeof(T), sizeof(T));
  if constexpr (std::is_floating_point_v<T>) return Json(static_cast<double>(number));
  if constexpr (std::is_same_v<T, uint64_t>) return to_json(number);
  return Json(static_cast<int64_t>(number));
}

Json element(const GgufArray& array, std::size_t index);

Json to_json(const GgufArray& array) {
  Json::Array elements;
  elements.reserve(array.size);
  for (std::size_t i = 0; i < array.size; ++i) elements.push_back(element(array, i));
  return Json(std::move(elements));
}

Json element(const GgufArray& array, std::size_t index) {
  switch (array.type) {
    case GgufValueType::UInt8: return number_at<uint8_t>(array, index);
    case GgufValueType::Int8: return number_at<int8_t>(array, index);
    case GgufValueType::UInt16: return number_at<uint16_t>(array, index);
    case GgufValueType::Int16: return number_at<int16_t>(array, index);
    case GgufValueType::UInt32: return number_at<uint32_t>(array, index);
    case GgufValueType::Int32: return number_at<int32_t>(array, index);
    case GgufValueType::Float32: return number_at<float>(array, index);
    case GgufValueType::UInt64: return number_at<uint64_t>(array, index);
    case GgufValueType::Int64: return number_at<int64_t>(array, index);
    case GgufValueType::Float64: return number_at<double>(array, index);
    case GgufValueType::Bool: return Json(array.numbers[index] != std::byte{0});
    case GgufValueType::String: return Json(array.strings[index]);
    case GgufValueType::Array: return to_json(array.arrays[index]);
  }
  return Json();
}

template <class T>
const T& get(const GgufValue& value, std::string_view wanted) {
  const T* held = std::get_if<T>(&value.value);
  require<FormatError>(held, "[GgufValue] must be ", wanted, "; got ", gguf_value_type_name(value.type), ".");
  return *held;
}

}  // namespace

std::string_view gguf_value_type_name(GgufValueType type) {
  static constexpr std::array<std::string_view, 13> kNames = {"uint8",  "int8",    "uint16", "int16",  "uint32",
                                                              "int32",  "float32", "bool",   "string", "array",
                                                              "uint64", "int64",   "float64"};
  return kNames[static_cast<std::size_t>(type)];
}

int64_t GgufValue::as_int() const {
  if (const uint64_t* number = std::get_if<uint64_t>(&value)) {
    require<FormatError>(*number <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max()),
                         "[GgufValue] must be below 2^63; got ", *number, ".");
    return static_cast<int64_t>(*number);
  }
  return get<int64_t>(*this, "an integer");
}

double GgufValue::as_double() const {
  if (const uint64_t* number = std::get_if<uint64_t>(&value)) return static_cast<double>(*number);
  if (const int64_t* number = std::get_if<int64_t>(&value)) return static_cast<double>(*number);
  return get<double>(*this, "a number");
}

bool GgufValue::as_bool() const { return get<bool>(*this, "a bool"); }
std::string_view GgufValue::as_string() const { return get<std::string_view>(*this, "a string"); }
const GgufArray& GgufValue::as_array() const { return get<GgufArray>(*this, "an array"); }

Json GgufValue::to_json() const {
  return std::visit(
      [](const auto& held) -> Json {
        using T = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<T, GgufArray> || std::is_same_v<T, uint64_t>)
          return easydel::to_json(held);
        else
          return Json(held);
      },
      value);
}

}  // namespace easydel

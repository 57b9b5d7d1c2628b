#include "easydel/core/build_info.h"
#include "easydel/core/text/utf8.h"

#if EASYDEL_HAS_ARROW
#include "easydel/data/sources/arrow_values.h"

#include <arrow/array.h>
#include <arrow/extension_type.h>
#include <arrow/scalar.h>
#include <arrow/table.h>
#include <arrow/type.h>
#include <arrow/util/float16.h>

#include <limits>

#include "easydel/core/error.h"
#include "easydel/io/hub/base64.h"

namespace easydel::data {
namespace {

Json text_value(std::string_view text, const std::string& where) {
  const std::size_t bad = invalid_utf8(text);
  require<FormatError>(bad == std::string_view::npos, "[", where, "] a text is not UTF-8: its byte ", bad,
                       " is invalid.");
  return Json(text);
}

template <class ArrayType>
Json plain(const arrow::Array& array, int64_t index) {
  return Json(static_cast<const ArrayType&>(array).Value(index));
}

Json unsigned_value(const arrow::Array& array, int64_t index, const std::string& where) {
  const uint64_t value = static_cast<const arrow::UInt64Array&>(array).Value(index);
  require<NotSupportedError>(value <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max()), "[", where,
                             "] an integer must be below 2^63; got ", value, ".");
  return Json(static_cast<int64_t>(value));
}

Json elements(const arrow::Array& values, int64_t begin, int64_t count, const std::string& where) {
  Json::Array out;
  for (int64_t i = 0; i < count; ++i) out.push_back(arrow_value(values, begin + i, where));
  return Json(std::move(out));
}

template <class ListType>
Json list_value(const arrow::Array& array, int64_t index, const std::string& where) {
  const auto& list = static_cast<const ListType&>(array);
  return elements(*list.values(), list.value_offset(index), list.value_length(index), where);
}

Json struct_value(const arrow::Array& array, int64_t index, const std::string& where) {
  const auto& fields = static_cast<const arrow::StructArray&>(array);
  Json out = Json::object();
  for (int i = 0; i < fields.num_fields(); ++i) {
    out[fields.struct_type()->field(i)->name()] = arrow_value(*fields.field(i), index, where);
  }
  return out;
}

// An object when the keys are strings, else pairs.
Json map_value(const arrow::Array& array, int64_t index, const std::string& where) {
  const auto& map = static_cast<const arrow::MapArray&>(array);
  const bool named = map.keys()->type_id() == arrow::Type::STRING;
  Json out = named ? Json::object() : Json::array();
  for (int64_t i = map.value_offset(index); i < map.value_offset(index + 1); ++i) {
    Json key = arrow_value(*map.keys(), i, where), value = arrow_value(*map.items(), i, where);
    if (named) {
      out[key.as_string()] = std::move(value);
    } else {
      out.push_back(Json::array({std::move(key), std::move(value)}));
    }
  }
  return out;
}

}  // namespace

Json arrow_value(const arrow::Array& array, int64_t index, const std::string& where) {
  using arrow::Type;
  if (array.IsNull(index)) return {};
  switch (array.type_id()) {
    case Type::NA: return {};
    case Type::BOOL: return plain<arrow::BooleanArray>(array, index);
    case Type::INT8: return Json(int{static_cast<const arrow::Int8Array&>(array).Value(index)});
    case Type::INT16: return Json(int{static_cast<const arrow::Int16Array&>(array).Value(index)});
    case Type::INT32: return plain<arrow::Int32Array>(array, index);
    case Type::INT64: return plain<arrow::Int64Array>(array, index);
    case Type::UINT8: return Json(int{static_cast<const arrow::UInt8Array&>(array).Value(index)});
    case Type::UINT16: return Json(int{static_cast<const arrow::UInt16Array&>(array).Value(index)});
    case Type::UINT32: return plain<arrow::UInt32Array>(array, index);
    case Type::UINT64: return unsigned_value(array, index, where);
    case Type::HALF_FLOAT:
      return Json(
          arrow::util::Float16::FromBits(static_cast<const arrow::HalfFloatArray&>(array).Value(index)).ToDouble());
    case Type::FLOAT: return Json(double{static_cast<const arrow::FloatArray&>(array).Value(index)});
    case Type::DOUBLE: return plain<arrow::DoubleArray>(array, index);
    case Type::STRING: return text_value(static_cast<const arrow::StringArray&>(array).GetView(index), where);
    case Type::LARGE_STRING:
      return text_value(static_cast<const arrow::LargeStringArray&>(array).GetView(index), where);
    case Type::STRING_VIEW: return text_value(static_cast<const arrow::StringViewArray&>(array).GetView(index), where);
    case Type::BINARY: return Json(base64_encode(static_cast<const arrow::BinaryArray&>(array).GetView(index)));
    case Type::LARGE_BINARY:
      return Json(base64_encode(static_cast<const arrow::LargeBinaryArray&>(array).GetView(index)));
    case Type::BINARY_VIEW:
      return Json(base64_encode(static_cast<const arrow::BinaryViewArray&>(array).GetView(index)));
    case Type::FIXED_SIZE_BINARY:
      return Json(base64_encode(static_cast<const arrow::FixedSizeBinaryArray&>(array).GetView(index)));
    case Type::LIST: return list_value<arrow::ListArray>(array, index, where);
    case Type::LARGE_LIST: return list_value<arrow::LargeListArray>(array, index, where);
    case Type::FIXED_SIZE_LIST: return list_value<arrow::FixedSizeListArray>(array, index, where);
    case Type::LIST_VIEW: return list_value<arrow::ListViewArray>(array, index, where);
    case Type::LARGE_LIST_VIEW: return list_value<arrow::LargeListViewArray>(array, index, where);
    case Type::STRUCT: return struct_value(array, index, where);
    case Type::MAP: return map_value(array, index, where);
    case Type::DICTIONARY: {
      const auto& dictionary = static_cast<const arrow::DictionaryArray&>(array);
      return arrow_value(*dictionary.dictionary(), dictionary.GetValueIndex(index), where);
    }
    case Type::EXTENSION: return arrow_value(*static_cast<const arrow::ExtensionArray&>(array).storage(), index, where);
    default: break;
  }
  const auto scalar = array.GetScalar(index);
  require<FormatError>(scalar.ok(), "[", where, "] a value of type ", array.type()->ToString(),
                       " cannot be read: ", scalar.status().ToString(), ".");
  return Json((*scalar)->ToString());
}

Json arrow_row(const arrow::Table& table, int64_t index, const std::string& where) {
  Json row = Json::object();
  for (int i = 0; i < table.num_columns(); ++i) {
    int64_t inside = index;
    int chunk = 0;
    const arrow::ChunkedArray& column = *table.column(i);
    for (; inside >= column.chunk(chunk)->length(); ++chunk) inside -= column.chunk(chunk)->length();
    const std::string& name = table.field(i)->name();
    row[name] = arrow_value(*column.chunk(chunk), inside, concat(where, ", ", name));
  }
  return row;
}

}  // namespace easydel::data
#endif

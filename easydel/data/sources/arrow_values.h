// Arrow's arrays as JSON values. Only for files that include Arrow.
#pragma once

#include <arrow/array.h>
#include <arrow/table.h>

#include <string>

#include "easydel/core/json/json.h"

namespace easydel::data {

// One value. Nested types become arrays and objects, binary becomes base64, types that JSON lacks (dates, decimals) the
// text that Arrow prints. FormatError on text that is not UTF-8; NotSupportedError on an integer above 2^63.
Json arrow_value(const arrow::Array& array, int64_t index, const std::string& where);

Json arrow_row(const arrow::Table& table, int64_t index, const std::string& where);

}  // namespace easydel::data

// Images and recordings in the columns of a row.
#pragma once

#include <string>

#include "easydel/data/sources/source.h"

namespace easydel::data {

// The bytes of a file that a value names or holds:
//   - a path, below the folder of the data file unless it is absolute;
//   - a data URI, data:image/png;base64,…;
//   - base64;
//   - an object {bytes, path}, as data sets of the hub have in Parquet files: the bytes, else the path.
// FormatError with the row's location when it is none of these, or when there is no such file.
std::string media_bytes(const Row& row, const Json& value, const std::string& name);

}  // namespace easydel::data

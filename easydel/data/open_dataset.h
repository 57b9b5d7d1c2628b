// A data set as its options describe it: files found and opened, fields renamed, rows filtered and counted.
#pragma once

#include <string>

#include "easydel/data/options.h"
#include "easydel/data/sources/source.h"

namespace easydel::data {

// What mixture_weights calls it.
std::string name_of(const DatasetOptions& options);

// FormatError when there is no row, or when the filter drops all of them.
SourcePtr open_dataset(const DatasetOptions& options, const MixtureOptions& mixture);

}  // namespace easydel::data

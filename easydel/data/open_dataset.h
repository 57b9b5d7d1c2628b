// Opens a data set from its options: finds and opens files, renames fields, filters and counts rows.
#pragma once

#include <string>

#include "easydel/data/options.h"
#include "easydel/data/sources/source.h"

namespace easydel::data {

// Its name in mixture_weights.
std::string name_of(const DatasetOptions& options);

// FormatError when there are no rows, or when the filter drops all of them.
SourcePtr open_dataset(const DatasetOptions& options, const MixtureOptions& mixture);

}  // namespace easydel::data

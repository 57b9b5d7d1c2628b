// Part of a document as a segment of a packed row.
#pragma once

#include "easydel/data/rows/example.h"

namespace easydel::data {

// Tokens [from, from + count) with positions from 0 on. The first of them has no label: no token of its segment
// precedes it. ConfigError on an example without input_ids.
void append_part(const Example& document, int64_t from, int64_t count, int64_t segment, Example& row);

}  // namespace easydel::data

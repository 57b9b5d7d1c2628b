// The rope block of a config: its fields in JSON and its rules.
#pragma once

#include <cstdint>
#include <string>

#include "easydel/operations/rope_parameters.h"

namespace easydel {

class FieldVisitor;

void list_fields(RopeParameters& rope, FieldVisitor& v);

// ConfigError begins with `where` and names the key under `block`.
void check_rope(const RopeParameters& rope, const std::string& where, int64_t head_dim,
                const std::string& block = "rope_parameters");

// Scalings that count from the length the model was trained with take max_position_embeddings when it is not given.
void fill_original_length(RopeParameters& rope, int64_t max_position_embeddings);

}  // namespace easydel

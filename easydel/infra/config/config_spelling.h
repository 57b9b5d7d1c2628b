// Old names of config keys become those that transformers 5 writes, in place.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "easydel/core/json/json.h"
#include "easydel/infra/fields/field_visitor.h"

namespace easydel {

struct CurrentSpelling {
  Json json;
  std::map<std::string, std::string> given;  // how a key was written where it was written otherwise
};

// torch_dtype becomes dtype, num_labels becomes id2label, rope_theta and rope_scaling become rope_parameters (for a
// config that has it), an alias becomes its key. `fields` are those of a config with its defaults, at least those that
// `has_other_spellings`.
CurrentSpelling to_current_spelling(Json object, const std::vector<FieldValue>& fields, const std::string& where);
bool has_other_spellings(const Field& field);

// The same for values that replace some of `current`, which is in current spelling: rope_theta by itself changes
// rope_parameters. Gives the values to set.
CurrentSpelling overrides_in_current_spelling(const Json& current, const Json& overrides,
                                              const std::vector<FieldValue>& fields, const std::string& where);

}  // namespace easydel

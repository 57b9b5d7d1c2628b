// What a JSON schema may contain, so that no rule in it is silently ignored.
#pragma once

#include "easydel/core/json/json.h"

namespace easydel::serve {

// ConfigError names the keyword and its place when the grammar could not enforce it.
void check_schema(const Json& schema);
// The same for every schema within a structural tag.
void check_structural_tag(const Json& tag);

}  // namespace easydel::serve

// Resolves names to variables before a template runs, as Jinja does.
#pragma once

#include "easydel/text/jinja/syntax/parser.h"

namespace easydel::jinja {

// Lays out the frames, fills in every Ref and looks up filters and tests. Throws TemplateError for unknown ones, for a
// `break` outside a loop and so on.
void resolve_names(ParsedTemplate& parsed);

}  // namespace easydel::jinja

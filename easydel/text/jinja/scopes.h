// Which variable a name means: Jinja decides that before a template runs, and so does this.
#pragma once

#include "easydel/text/jinja/syntax/parser.h"

namespace easydel::jinja {

// Lays out the frames, fills in every Ref and looks up filters and tests. Throws TemplateError for unknown ones, for a
// `break` outside of loops and the like.
void resolve_names(ParsedTemplate& parsed);

}  // namespace easydel::jinja

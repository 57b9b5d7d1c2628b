// Every key of every section of a config file, as Markdown.
#pragma once

#include <string>

namespace easydel {

// A heading and a table for each section: key, type, default, and what it does, or why it is refused or has no effect.
// docs/elarge.md contains this text.
std::string elarge_key_table();

}  // namespace easydel

// How the text of a template is parsed.
#pragma once

namespace easydel::jinja {

// The defaults are those of transformers' chat templates.
struct Settings {
  bool trim_blocks = true;
  bool lstrip_blocks = true;
  bool keep_trailing_newline = false;
  bool strict_undefined = false;  // an undefined variable may only be tested or given a default
};

}  // namespace easydel::jinja

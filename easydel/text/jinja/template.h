// A Jinja template, parsed once and rendered often. By default configured like transformers' chat templates:
// sandboxed, trim_blocks and lstrip_blocks on, with break, continue, and the generation tag.
#pragma once

#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "easydel/core/json/json.h"
#include "easydel/text/jinja/runtime.h"
#include "easydel/text/jinja/settings.h"
#include "easydel/text/jinja/template_error.h"

namespace easydel::jinja {

struct ParsedTemplate;

struct Rendering {
  std::string text;
  struct Span {
    std::size_t begin = 0, end = 0;  // bytes of the text
    friend bool operator==(const Span&, const Span&) = default;
  };
  std::vector<Span> generated;  // the text between {% generation %} and {% endgeneration %}
};

struct RenderOptions {
  std::optional<std::tm> now;  // for strftime_now; the local time when absent
};

// Cheap to copy. Rendering is const and thread-safe.
class Template {
 public:
  // Throws TemplateError with the line, for text that is not a valid template or too long.
  explicit Template(std::string_view source, const Limits& limits = {}, const Settings& settings = {});

  // `variables` must be an object: its keys are the template's variables. Throws TemplateError.
  Rendering render(const Json& variables, const RenderOptions& options = {}) const;

 private:
  std::shared_ptr<const ParsedTemplate> parsed_;
  Limits limits_;
  bool strict_undefined_ = false;
};

}  // namespace easydel::jinja

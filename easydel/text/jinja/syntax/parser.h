// Tokens to statements: Jinja's grammar with loop controls and the generation tag.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "easydel/text/jinja/settings.h"
#include "easydel/text/jinja/syntax/ast.h"

namespace easydel::jinja {

struct ParsedTemplate {
  std::vector<std::unique_ptr<StringData>> constants;  // first, because the statements refer to them
  Body body;
  FrameLayout frame;
};

// Throws TemplateError with the line.
ParsedTemplate parse_template(std::string_view source, const Settings& settings = {});

}  // namespace easydel::jinja

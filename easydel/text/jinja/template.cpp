#include "easydel/text/jinja/template.h"

#include "easydel/core/text/utf8.h"
#include "easydel/text/jinja/builtins/clock.h"
#include "easydel/text/jinja/builtins/unicode.h"
#include "easydel/text/jinja/interpreter.h"
#include "easydel/text/jinja/operators.h"

namespace easydel::jinja {
namespace {

Value from_json(Runtime& runtime, const Json& json) {
  const Nested nested(runtime);
  if (json.is_bool()) return json.as_bool();
  if (json.is_int()) return json.as_int();
  if (json.is_float()) return json.as_double();
  if (json.is_string()) {
    const std::string& text = json.as_string();
    if (const std::size_t at = invalid_utf8(text); at != std::string::npos) {
      raise("a variable contains text that is not UTF-8, at byte ", at);
    }
    return runtime.string(text);
  }
  if (json.is_array()) {
    Values items;
    items.reserve(json.size());
    for (const Json& item : json.as_array()) items.push_back(from_json(runtime, item));
    return runtime.list(std::move(items));
  }
  if (!json.is_object()) return Value::none();
  const Value out = runtime.dict();
  for (const auto& [key, value] : json.as_object()) {
    dict_set(runtime, out.as<DictData>(), from_json(runtime, Json(key)), from_json(runtime, value));
  }
  return out;
}

}  // namespace

Template::Template(std::string_view source, const Limits& limits, const Settings& settings)
    : limits_(limits), strict_undefined_(settings.strict_undefined) {
  if (source.size() > static_cast<std::size_t>(limits.template_size)) {
    throw TemplateError(1,
                        concat("a template must have at most ", limits.template_size, " bytes; got ", source.size()));
  }
  if (const std::size_t at = invalid_utf8(source); at != std::string::npos) {
    throw TemplateError(1, concat("the template is not UTF-8, at byte ", at));
  }
  parsed_ = std::make_shared<const ParsedTemplate>(parse_template(source, settings));
}

Rendering Template::render(const Json& variables, const RenderOptions& options) const {
  Interpreter interpreter(*parsed_, limits_, options.now ? *options.now : local_time_now());
  interpreter.be_strict(strict_undefined_);
  Rendering out;
  try {
    for (const auto& [name, value] : variables.as_object()) {
      interpreter.set_variable(name, from_json(interpreter, value));
    }
    out.text = interpreter.run();
  } catch (const Failure& failure) {
    throw TemplateError(interpreter.line(), failure.what());
  }
  // Characters to bytes, in one pass: the spans are in the order in which they were written.
  std::size_t characters = 0, byte = 0;
  const auto byte_of = [&](std::size_t character) {
    if (character < characters) characters = byte = 0;
    byte += byte_of_character(std::string_view(out.text).substr(byte), character - characters);
    characters = character;
    return byte;
  };
  for (const Interpreter::Span& span : interpreter.generated()) {
    const std::size_t begin = byte_of(span.begin);
    out.generated.push_back({begin, byte_of(span.end)});
  }
  return out;
}

}  // namespace easydel::jinja

#include "easydel/core/text/utf8.h"
#include "easydel/text/jinja/template.h"
#include "fuzz.h"

using namespace easydel;

// Small limits, so that a hostile template ends soon; the target checks that it ends, and how.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  static const Json kVariables = Json::parse(R"({
    "a": 5, "b": -3, "c": 2.5, "t": true, "f": false, "n": null, "s": "Hello World", "u": "größe 日本 😀", "x": ["b", "a"],
    "y": [3, 1, 2], "m": [[1, 2], [3, 4]], "d": {"k": "v", "n": 1}, "bos_token": "<s>", "eos_token": "</s>",
    "messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi\n"},
                 {"role": "assistant", "content": null, "tool_calls": [{"id": "abc123def", "type": "function",
                  "function": {"name": "f", "arguments": {"x": [1, "é"]}}}]}, {"role": "tool", "content": "4"}],
    "tools": [{"type": "function", "function": {"name": "f", "description": "", "parameters": {"type": "object",
               "properties": {"x": {"type": "array", "items": {"type": "string"}}}}}}],
    "documents": [{"title": "T", "text": "x"}], "add_generation_prompt": true, "people": [{"name": "Ann", "age": 3}]})");
  return fuzz::refuse_or([&] {
    const jinja::Limits limits{.steps = 50'000, .output = 1 << 20, .memory = 8 << 20, .template_size = 1 << 16};
    const jinja::Template parsed(fuzz::as_text(data, size), limits);
    const std::tm now{};
    const jinja::Rendering first = parsed.render(kVariables, {.now = now});
    if (invalid_utf8(first.text) != std::string::npos) fuzz::found("the text is not UTF-8");
    for (const auto& span : first.generated) {
      if (span.begin > span.end || span.end > first.text.size()) fuzz::found("a span lies outside of the text");
    }
    const jinja::Rendering second = parsed.render(kVariables, {.now = now});
    if (first.text != second.text || first.generated != second.generated) fuzz::found("rendering again differs");
  });
}

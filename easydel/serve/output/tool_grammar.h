// The grammar that makes a model write its tool calls so that the parser of the same format reads them.
#pragma once

#include <optional>
#include <vector>

#include "easydel/serve/engine/request.h"
#include "easydel/serve/output/message_parser.h"
#include "easydel/serve/output/tool_spec.h"

namespace easydel::serve {

// Required: one call at least, with nothing but reasoning before it. Named: one call of the tool, which is the only one
// in `tools`. Auto: only where a tool is strict, text and calls. The arguments follow the schemas; under Auto, those of
// the strict tools. Nothing to force, or tools that no format reads: nothing. Without `parallel` there is one call.
// - pythonic: calls are forced as a list of JSON, which its parser reads too; strict is not enforced under Auto.
// - harmony: one call, since <|call|> ends the answer.
// ConfigError for Required or Named without tools, and for more than one of Named.
std::optional<GrammarSpec> tool_grammar(const MessageFormat& format, const std::vector<ToolSpec>& tools,
                                        ToolChoice choice, bool parallel);

}  // namespace easydel::serve

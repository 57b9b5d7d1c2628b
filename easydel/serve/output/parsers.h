// One function for each family of formats; make_message_parser knows which names they have.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "easydel/serve/output/message_parser.h"
#include "easydel/serve/output/tool_spec.h"

namespace easydel::serve {

std::unique_ptr<MessageParser> make_plain_parser();  // everything is content
std::unique_ptr<MessageParser> make_hermes_parser();
std::unique_ptr<MessageParser> make_llama3_json_parser();
std::unique_ptr<MessageParser> make_mistral_parser();
std::unique_ptr<MessageParser> make_json_parser();
std::unique_ptr<MessageParser> make_pythonic_parser();
std::unique_ptr<MessageParser> make_deepseek_parser();
// The types of the parameters say which values are strings.
std::unique_ptr<MessageParser> make_qwen3_coder_parser(const std::vector<ToolSpec>& tools);
// Reads reasoning as well. Without `calls` they come out as content.
std::unique_ptr<MessageParser> make_harmony_parser(bool starts_in_reasoning, bool calls);

struct ReasoningTags {
  std::vector<std::string_view> open, close;
  bool starts_inside = false;
};
// Splits off the reasoning at the start and hands the rest to `next`.
std::unique_ptr<MessageParser> make_reasoning_parser(ReasoningTags tags, std::unique_ptr<MessageParser> next);
// The tags of a format; null for harmony and for names that are not known.
const ReasoningTags* find_reasoning_tags(std::string_view reasoning);

}  // namespace easydel::serve

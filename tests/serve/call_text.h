// Tool calls as models write them, and the messages that parsers make of them.
#pragma once

#include <functional>
#include <iosfwd>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "easydel/serve/output/message_parser.h"

namespace easydel::serve {

struct ReadCall {
  std::string name, arguments;
  friend bool operator==(const ReadCall&, const ReadCall&) = default;
};

// What all deltas together say.
struct Message {
  std::string content, reasoning;
  std::vector<ReadCall> calls;
  friend bool operator==(const Message&, const Message&) = default;
};
std::ostream& operator<<(std::ostream& out, const Message& message);

Message read_whole(const MessageFormat& format, std::string_view text);
// `cut` gives the length of the next piece.
Message read_pieces(const MessageFormat& format, std::string_view text, const std::function<std::size_t()>& cut,
                    const std::vector<ToolSpec>& tools = {});

struct RandomCall {
  std::string name;
  Json arguments;
};
// One to three. Their arguments nest, and their strings have quotes, braces, tags and characters of all lengths.
std::vector<RandomCall> random_calls(std::mt19937& random);
std::string write_calls(const std::vector<RandomCall>& calls, const std::string& format);
std::vector<ToolSpec> tools_of(const std::vector<RandomCall>& calls);  // with the types of the arguments

// Parts of calls and of reasoning in a format.
std::vector<std::string> markup_pieces(const std::string& format);

}  // namespace easydel::serve

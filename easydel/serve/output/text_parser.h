// What the parsers of all formats share: reading pieces, content with the white space around calls left out, and the
// deltas of calls.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "easydel/serve/output/message_parser.h"
#include "easydel/serve/output/parse_task.h"

namespace easydel::serve {

struct Unit {};  // what a task gives that gives nothing

class TextParser : public MessageParser {
 public:
  MessageDelta feed(std::string_view text) final;
  MessageDelta finish() final;

 protected:
  // A call was read to its end; or it is none, and nothing of it was told; or it broke after its name was told.
  enum class CallEnd { Complete, Rejected, Broken };

  // The whole message, or the rest of it. By itself it reads content, calls where `call` finds them, and the end.
  virtual ParseTask<Unit> read();
  // At a '<': reads a call, or what only looked like one and was told as content. False: nothing was read.
  virtual ParseTask<bool> call();
  // Likewise: whether an end that is not told is all that is left.
  virtual ParseTask<bool> at_end();

  auto peek() { return input_.peek(); }
  // Reads the text, or nothing of it.
  ParseTask<bool> literal(std::string_view text);
  // The index of the first one that follows, which is read; -1 for none.
  ParseTask<int> any_of(std::span<const std::string_view> texts);
  ParseTask<Unit> spaces();
  // A JSON string, decoded.
  ParseTask<std::optional<std::string>> json_string();
  // A JSON object, into `held` or into the arguments of the call that was begun. False where it is none: the byte that
  // breaks it is not read.
  ParseTask<bool> json_object(std::string* held);
  // Bytes as long as `is_part` says so.
  ParseTask<std::string> take_while(bool (*is_part)(char));

  void add_content(std::string_view text);  // white space is held back until it is known what follows
  void add_reasoning(std::string_view text) { out_.reasoning += text; }
  void begin_call(std::string name, std::string id = {});  // an empty id: a random one
  void add_arguments(std::string_view text);
  void reject(std::size_t mark) { add_content(input_.since(mark)); }  // what only looked like a call
  void end_content();

  ParseInput input_;
  std::size_t id_length_ = 0;  // of bare random ids; 0: call_ and 24 characters

 private:
  MessageDelta step();

  std::optional<ParseTask<Unit>> task_;
  MessageDelta out_;
  std::string space_;  // held back
  bool after_call_ = false;
  int64_t calls_ = 0;
};

constexpr bool is_parser_space(int c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }
constexpr bool is_parser_digit(int c) { return c >= '0' && c <= '9'; }
constexpr bool is_parser_letter(int c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
std::string escaped_json(char byte);  // within a JSON string
std::string quoted_json(std::string_view text);
void append_utf8(std::string& out, uint32_t code_point);

}  // namespace easydel::serve

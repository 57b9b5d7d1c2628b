// The items of a response as its text arrives, and the events that tell of them.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "easydel/core/json/json.h"
#include "easydel/serve/output/message_parser.h"

namespace easydel::serve {

// One item is open at a time: reasoning, a message or a function call. Not thread-safe.
class ResponseOutput {
 public:
  // Takes the events in order, without their sequence_number.
  using Emit = std::function<void(std::string_view type, Json event)>;

  explicit ResponseOutput(Emit emit) : emit_(std::move(emit)) {}

  // `logprobs`: of the tokens behind the delta, an array; they go with the text of messages.
  void add(const MessageDelta& delta, Json logprobs);
  // Closes what is open. A response that ends too early leaves its last item incomplete.
  void finish(bool is_complete);

  const Json& items() const { return items_; }
  // The same as one message of a chat, for the response that continues this one; null when there is nothing.
  Json message() const;

 private:
  enum class Open { Nothing, Reasoning, Message, Call };

  void add_reasoning(const std::string& text);
  void add_text(const std::string& text);
  void add_call(const ToolCallDelta& delta);
  void open(Open kind, Json item, const char* part);
  void close(std::string_view status);
  Json event(std::initializer_list<std::pair<std::string_view, Json>> fields) const;
  Json part(const char* type, const std::string& text) const;

  Emit emit_;
  Json items_ = Json::array();
  Open open_ = Open::Nothing;
  std::string item_id_;
  std::string text_;         // of the open item: its text, or its arguments
  int64_t call_index_ = -1;  // of the open call
  std::string blank_;        // white space that becomes a message only when text follows
  Json pending_logprobs_ = Json::array();
  Json logprobs_ = Json::array();  // of the open message
  std::string reasoning_, content_;
  Json calls_ = Json::array();
};

}  // namespace easydel::serve

// Texts and conversations of a row to token ids, as trl prepares them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "easydel/data/sources/source.h"
#include "easydel/tokenizers/auto_tokenizer.h"

namespace easydel::data {

using Ids = std::vector<int64_t>;

struct CodecOptions {
  std::string eos_token;      // empty: the tokenizer's own
  std::string chat_template;  // empty: the tokenizer's own
};

// Cheap to copy; thread-safe.
class TextCodec {
 public:
  explicit TextCodec(AutoTokenizer tokenizer, const CodecOptions& options = {});

  Ids encode(std::string_view text, bool add_special_tokens = true) const;

  struct Chat {
    bool add_generation_prompt = false;
    bool continue_final_message = false;
    bool masks = false;  // whether to return assistant_masks
    bool tools = true;   // whether to pass the row's tools to the template
  };
  struct ChatIds {
    Ids ids;
    std::vector<uint8_t> assistant_masks;  // 1 for the assistant's tokens; only if requested
  };
  // `row` may have "tools" and "chat_template_kwargs"; errors name its location.
  ChatIds encode_chat(const Json& messages, const Row& row, const Chat& chat) const;
  std::string render_chat(const Json& messages, const Row& row, const Chat& chat) const;

  bool has_chat_template() const;
  const std::string& eos_token() const;  // ConfigError when there is none
  int64_t eos_token_id() const;
  std::optional<int64_t> bos_token_id() const;
  std::string with_eos(std::string text) const;  // with the token at its end, once

 private:
  struct ParsedTemplates;
  RenderedChat render(const Json& messages, const Row& row, const Chat& chat) const;

  AutoTokenizer tokenizer_;
  std::shared_ptr<ParsedTemplates> templates_;
  std::string eos_token_;
};

// A list of messages: objects with a role.
bool is_conversation(const Json& value);
Json joined(const Json& a, const Json& b);  // two lists of messages
std::size_t common_prefix(const Ids& a, const Ids& b);

// The text of a field. FormatError with the location and the type when it is not a string.
const std::string& text_of(const Row& row, std::string_view name);

// Converts "conversations" of from/value to "messages" of role/content.
Row to_chatml(Row row);
// Converts Alpaca's "instruction", "input" and "output", with "system" and "history" where a row has them, to "prompt"
// and "completion": messages, or where there is no chat template the text that Alpaca was trained with. Other rows
// stay.
Row from_alpaca(Row row, bool as_messages);

}  // namespace easydel::data

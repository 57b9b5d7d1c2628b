// Texts and conversations of a row to token ids, as trl does it before it trains.
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

// Cheap to copy; several threads may use it at a time.
class TextCodec {
 public:
  explicit TextCodec(AutoTokenizer tokenizer, const CodecOptions& options = {});

  Ids encode(std::string_view text, bool add_special_tokens = true) const;

  struct Chat {
    bool add_generation_prompt = false;
    bool continue_final_message = false;
    bool masks = false;  // whether assistant_masks are wanted
    bool tools = true;   // whether the template sees the row's tools
  };
  struct ChatIds {
    Ids ids;
    std::vector<uint8_t> assistant_masks;  // 1 for what the assistant wrote; only when asked for
  };
  // `row` may have "tools" and "chat_template_kwargs"; its place is named when the template fails.
  ChatIds encode_chat(const Json& messages, const Row& row, const Chat& chat) const;
  std::string render_chat(const Json& messages, const Row& row, const Chat& chat) const;

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

// The text of a field. FormatError with the place and the type when it is no text.
const std::string& text_of(const Row& row, std::string_view name);

// With "conversations" of from/value turned into "messages" of role/content.
Row to_chatml(Row row);

}  // namespace easydel::data

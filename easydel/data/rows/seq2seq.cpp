#include "easydel/data/rows/seq2seq.h"

#include "easydel/core/error.h"

namespace easydel::data {
namespace {

class Seq2Seq {
 public:
  Seq2Seq(const AutoTokenizer& tokenizer, const Seq2SeqOptions& options)
      : codec_(tokenizer, options.codec), options_(options) {
    require<ConfigError>(options.limit.tokens.value_or(1) > 0, "[max_length] must be above 0; got ",
                         options.limit.tokens.value_or(1), ".");
  }

  std::optional<Example> operator()(const Row& given) const {
    const Row row = to_chatml(given);
    Example out;
    if (row.values.contains("input_ids")) {
      out.input_ids = integers_of(row, "input_ids");
      out.labels = integers_of(row, "labels");
      cut(out.input_ids, options_.limit);
      cut(out.labels, options_.limit);
      return out;
    }
    const bool is_pair = row.values.contains("prompt"), is_chat = row.values.contains("messages");
    require<FormatError>(
        is_pair || is_chat, "[", row.place(),
        "] an encoder-decoder is trained on rows with a prompt and a completion, or with messages; this one has ",
        list_fields(row.values), ". format_fields renames columns.");
    if (is_pair) {
      const Json& prompt = field_of(row, "prompt");
      out.input_ids = is_conversation(prompt) ? encode_messages(prompt, row) : encode(text_of(row, "prompt"));
      out.labels = target(answer_of(row, field_of(row, "completion"), "completion"));
    } else {
      read_messages(row, out);
    }
    require<FormatError>(!out.input_ids.empty(), "[", row.place(), "] the source has no tokens.");
    return out;
  }

 private:
  Ids encode(std::string_view text) const {
    return encode_within(codec_, text, options_.add_special_tokens.value_or(true), options_.limit);
  }

  Ids encode_messages(const Json& messages, const Row& row) const {
    Ids ids = codec_.encode_chat(messages, row, {.add_generation_prompt = true}).ids;
    cut(ids, options_.limit);
    return ids;
  }

  Ids target(std::string_view text) const {
    return encode_target(codec_, text, options_.add_special_tokens.value_or(true), options_.limit);
  }

  void read_messages(const Row& row, Example& out) const {
    const Json& messages = field_of(row, "messages");
    require<FormatError>(is_conversation(messages) && messages.size() > 1, "[", row.place(),
                         "] \"messages\" must be a list of at least two objects with a role and a content; got ",
                         messages.is_array() ? concat(messages.size(), " of them") : messages.type_name(), ".");
    Json before = Json::array();
    for (std::size_t i = 0; i + 1 < messages.size(); ++i) before.push_back(messages.at(i));
    out.input_ids = encode_messages(before, row);
    out.labels = target(answer_of(row, Json::array({messages.at(messages.size() - 1)}), "messages"));
  }

  TextCodec codec_;
  Seq2SeqOptions options_;
};

}  // namespace

Ids encode_target(const TextCodec& codec, std::string_view text, bool add_special_tokens, const TextLimit& limit) {
  const int64_t end = codec.eos_token_id();
  Ids ids = encode_within(codec, text, add_special_tokens, limit);
  if (!ids.empty() && ids.back() == end) return ids;
  if (limit.tokens && static_cast<int64_t>(ids.size()) == *limit.tokens) ids.pop_back();
  ids.push_back(end);
  return ids;
}

std::string answer_of(const Row& row, const Json& completion, const std::string& name) {
  if (completion.is_string()) return completion.as_string();
  require<FormatError>(is_conversation(completion) && completion.size() == 1, "[", row.place(), "] \"", name,
                       "\" must be a text or a list of one message; got ", completion.type_name(),
                       completion.is_array() ? concat(" of ", completion.size()) : "", ".");
  const Json& message = completion.at(std::size_t{0});
  const Json* content = message.find("content");
  require<FormatError>(message.at("role") == Json("assistant") && content && content->is_string(), "[", row.place(),
                       "] \"", name, "\" must end with a text of the assistant; got ", message.dump(), ".");
  return content->as_string();
}

Transform make_seq2seq_transform(const AutoTokenizer& tokenizer, const Seq2SeqOptions& options) {
  return Seq2Seq(tokenizer, options);
}

}  // namespace easydel::data

#include "easydel/data/rows/vision.h"

#include <algorithm>

#include "easydel/core/error.h"
#include "easydel/tokenizers/chat_parts.h"

namespace easydel::data {

namespace {

void require_parts(const Json& messages, const Row& row) {
  for (const Json& message : messages.as_array()) {
    const Json* content = message.find("content");
    if (!content || !content->is_array()) continue;
    for (const Json& part : content->as_array()) {
      const Json *type = part.find("type"), *text = part.find("text");
      const bool is_known = type && (*type == Json("image") || (*type == Json("text") && text && text->is_string()));
      require<FormatError>(is_known, "[", row.place(),
                           "] a part of a content must be {type: image} or {type: text, text: …}; got ", part.dump(),
                           ".");
    }
  }
}

}  // namespace

std::vector<Json> images_of(const Row& row) {
  const Json* many = row.values.find("images");
  if (!many || many->is_null()) {
    const Json* one = row.values.find("image");
    return one && !one->is_null() ? std::vector<Json>{*one} : std::vector<Json>{};
  }
  require<FormatError>(many->is_array(), "[", row.place(), "] \"images\" must be a list of images; got ",
                       many->type_name(), ".");
  return {many->as_array().begin(), many->as_array().end()};
}

VisionRows::VisionRows(const AutoTokenizer& tokenizer, const VisionOptions& options)
    : tokenizer_(tokenizer), codec_(tokenizer, options.codec), options_(options) {
  for (const std::string& token : {options.image_token, options.feature_token}) {
    if (token.empty()) continue;
    const auto id = tokenizer->token_to_id(token);
    require<ConfigError>(id.has_value(), "[image_token] \"", token, "\" is not in the vocabulary of the tokenizer.");
    image_token_ids_.push_back(*id);
  }
}

// A message's text has placeholders, or the images go before the first text of the user.
Json VisionRows::placed(const Json& messages, std::size_t images) const {
  const auto has_places = [&](const Json& message) {
    const Json* content = message.find("content");
    if (!content) return false;
    if (content->is_string()) return content->as_string().find(options_.image_token) != std::string::npos;
    return content->is_array() &&
           std::any_of(content->as_array().begin(), content->as_array().end(), [](const Json& part) {
             const Json* type = part.find("type");
             return type && *type == Json("image");
           });
  };
  const Json::Array& all = messages.as_array();
  if (images == 0 || std::any_of(all.begin(), all.end(), has_places)) return messages;
  Json out = Json::array();
  bool is_placed = false;
  for (const Json& message : all) {
    Json copy = message;
    if (!is_placed && message.at("role") == Json("user") && message.at("content").is_string()) {
      Json parts = Json::array();
      for (std::size_t i = 0; i < images; ++i) parts.push_back(Json::object({{"type", "image"}}));
      parts.push_back(Json::object({{"type", "text"}, {"text", message.at("content")}}));
      copy["content"] = std::move(parts);
      is_placed = true;
    }
    out.push_back(std::move(copy));
  }
  return out;
}

Ids VisionRows::encode_chat(const Json& messages, const Row& row, bool asks, const ExpandText& expand) const {
  const std::string source =
      tokenizer_.has_chat_template() ? tokenizer_.config().chat_templates.select().source() : std::string();
  const Json fitting = fit_contents(messages, source, options_.image_token);
  return codec_.encode(expand(codec_.render_chat(fitting, row, {.add_generation_prompt = asks})), false);
}

Example VisionRows::operator()(const Row& given, std::size_t images, const ExpandText& expand) const {
  const Row row = to_chatml(given);
  Example out;
  std::size_t prompt = 0;
  const Json *asked = row.values.find("prompt"), *messages = row.values.find("messages");
  require<FormatError>(
      asked || messages, "[", row.place(),
      "] a vision-language model is trained on rows with messages, or with a prompt and a completion; this one has ",
      list_fields(row.values), ".");
  const Json& answer = asked ? field_of(row, "completion") : *messages;
  if (asked && !is_conversation(*asked)) {
    const std::string before = expand(text_of(row, "prompt"));
    const bool special = options_.add_special_tokens;
    out.input_ids = codec_.encode(before + codec_.with_eos(text_of(row, "completion")), special);
    prompt = common_prefix(codec_.encode(before, special), out.input_ids);
  } else {
    require<FormatError>(is_conversation(answer), "[", row.place(), "] \"", asked ? "completion" : "messages",
                         "\" must be a list of objects with a role and a content; got ", answer.type_name(), ".");
    require_parts(asked ? joined(*asked, answer) : answer, row);
    const Json all = placed(asked ? joined(*asked, answer) : answer, images);
    out.input_ids = encode_chat(all, row, false, expand);
    if (asked) {
      const Json::Array& list = all.as_array();
      const Json before(Json::Array(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(asked->size())));
      prompt = common_prefix(encode_chat(before, row, true, expand), out.input_ids);
    }
  }
  out.labels = out.input_ids;
  if (options_.completion_only_loss) std::fill_n(out.labels.begin(), prompt, kNoLoss);
  for (const int64_t token : options_.mask_image_tokens ? image_token_ids_ : std::vector<int64_t>())
    std::replace(out.labels.begin(), out.labels.end(), token, kNoLoss);
  cut_row(row, out);
  return out;
}

void VisionRows::cut_row(const Row& row, Example& example) const {
  const auto count = [&] {
    return std::count_if(example.input_ids.begin(), example.input_ids.end(), [&](int64_t id) {
      return std::find(image_token_ids_.begin(), image_token_ids_.end(), id) != image_token_ids_.end();
    });
  };
  const auto before = count();
  const std::size_t tokens = example.input_ids.size();
  cut(example.input_ids, options_.limit);
  cut(example.labels, options_.limit);
  require<FormatError>(count() == before, "[", row.place(), "] the row has ", tokens, " tokens, and cutting it to ",
                       options_.limit.tokens.value_or(0),
                       " would cut an image. Set a larger max_length, or another truncation_mode.");
}

}  // namespace easydel::data

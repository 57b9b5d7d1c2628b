#include "easydel/serve/openai/pooling/pooling_inputs.h"

#include "easydel/tokenizers/files/json_tokenizer.h"

namespace easydel::serve {
namespace {

std::vector<int32_t> pooling_ids(const Json& list, const std::string& path) {
  std::vector<int32_t> ids;
  for (const Json& value : list.as_array()) {
    const bool fits = value.is_int() && value.as_int() >= 0 && value.as_int() <= std::numeric_limits<int32_t>::max();
    require_field(fits, path, path, " must contain only token ids; got ", value.dump(), ".");
    ids.push_back(static_cast<int32_t>(value.as_int()));
  }
  return ids;
}

const Json& pooling_required(Fields& fields, std::string_view name) {
  const Json* found = fields.find(name);
  require_field(found != nullptr, fields.path(name), fields.path(name), " is required.");
  return *found;
}

void pooling_count(const Json& list, const std::string& path) {
  require_field(list.size() > 0 && list.size() <= kMaxPoolingInputs, path, path, " must have 1 to ", kMaxPoolingInputs,
                " entries; got ", list.size(), ".");
}

std::string pooling_document(const Json& value, const std::string& path) {
  if (value.is_string()) return value.as_string();
  require_field(value.is_object(), path, path, " must be a string or an object with \"text\"; got ", value.type_name(),
                ".");
  Fields fields(value, path + ".");
  const auto text = fields.string("text");
  require_field(text.has_value(), path + ".text", path, ".text is required.");
  fields.refuse_rest();
  return *text;
}

}  // namespace

PoolingCommon read_pooling_common(Fields& fields, const ServiceContext& context) {
  PoolingCommon common;
  common.model = choose_model(context, fields);
  common.priority = fields.integer("priority").value_or(0);
  common.add_special_tokens = fields.boolean("add_special_tokens", true);
  fields.string("user");
  return common;
}

std::vector<PoolingPrompt> read_pooling_prompts(Fields& fields, std::string_view name, const ServiceContext& context) {
  const Json& input = pooling_required(fields, name);
  const std::string path = fields.path(name);
  const bool specials = fields.boolean("add_special_tokens", true);
  std::vector<PoolingPrompt> prompts;
  if (input.is_string()) {
    prompts.push_back(pooling_prompt(context, {.text = input.as_string(), .path = path}, specials));
    return prompts;
  }
  require_field(input.is_array(), path, path, " must be a string, an array of strings or token ids; got ",
                input.type_name(), ".");
  if (input.size() > 0 && input.at(0).is_number()) {
    prompts.push_back({.tokens = pooling_ids(input, path), .path = path});
    return prompts;
  }
  pooling_count(input, path);
  for (std::size_t i = 0; i < input.size(); ++i) {
    const Json& one = input.at(i);
    const std::string at = concat(path, "[", i, "]");
    require_field(one.is_string() || one.is_array(), at, at, " must be a string or an array of token ids; got ",
                  one.type_name(), ".");
    prompts.push_back(one.is_string() ? pooling_prompt(context, {.text = one.as_string(), .path = at}, specials)
                                      : PoolingPrompt{.tokens = pooling_ids(one, at), .path = at});
  }
  return prompts;
}

std::vector<PoolingText> read_pooling_texts(Fields& fields, std::string_view name) {
  const Json& given = pooling_required(fields, name);
  const std::string path = fields.path(name);
  if (!given.is_array()) return {{.text = pooling_document(given, path), .path = path}};
  pooling_count(given, path);
  std::vector<PoolingText> texts;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const std::string at = concat(path, "[", i, "]");
    texts.push_back({.text = pooling_document(given.at(i), at), .path = at});
  }
  return texts;
}

PoolingPrompt pooling_prompt(const ServiceContext& context, const PoolingText& text, bool add_special_tokens) {
  return {.tokens = context.tokenizer->encode_ids(text.text, add_special_tokens), .path = text.path};
}

PoolingPrompt pooling_pair(const ServiceContext& context, const PoolingText& first, const PoolingText& second,
                           bool add_special_tokens) {
  const EncodeOptions options{.add_special_tokens = add_special_tokens, .offsets = false};
  if (const auto* tokenizer = dynamic_cast<const JsonTokenizer*>(&*context.tokenizer)) {
    return {.tokens = tokenizer->encode_pair({.first = first.text, .second = second.text}, options).ids,
            .path = second.path};
  }
  // Other formats know no pairs: one text follows the other.
  PoolingPrompt prompt = pooling_prompt(context, first, add_special_tokens);
  const auto more = context.tokenizer->encode_ids(second.text, false);
  prompt.tokens.insert(prompt.tokens.end(), more.begin(), more.end());
  prompt.path = second.path;
  return prompt;
}

void pooling_check(const ServiceContext& context, const PoolingPrompt& prompt) {
  const EngineInfo& info = context.engine->info();
  const auto count = static_cast<int64_t>(prompt.tokens.size());
  require_field(count > 0, prompt.path, prompt.path, " must not be empty.");
  if (count > info.max_model_len) {
    throw ApiError(400,
                   concat("This model's maximum context length is ", info.max_model_len, " tokens. However, ",
                          prompt.path, " has ", count, " tokens. Please reduce its length."),
                   prompt.path, "context_length_exceeded");
  }
  for (const int32_t id : prompt.tokens) {
    require_field(id < info.vocab_size, prompt.path, prompt.path, " must have token ids below ", info.vocab_size,
                  "; got ", id, ".");
  }
}

}  // namespace easydel::serve

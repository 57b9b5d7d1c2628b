#include "grammar_fixture.h"

#include <algorithm>
#include <cmath>
#include <regex>

#include "easydel/core/error.h"
#include "easydel/core/text/utf8.h"
#include "easydel/serve/grammar/mask.h"
#include "easydel/tokenizers/bpe/byte_level.h"
#include "easydel/tokenizers/files/json_tokenizer.h"

namespace easydel::serve::test {
namespace {

std::string byte_level_name(std::string_view bytes) {
  std::string name;
  for (const char byte : bytes) name += byte_level::text_of(static_cast<uint8_t>(byte));
  return name;
}

bool is_of_type(const Json& value, const std::string& type) {
  if (type == "integer")
    return value.is_int() || (value.is_float() && std::trunc(value.as_double()) == value.as_double());
  if (type == "number") return value.is_number();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_bool();
  if (type == "null") return value.is_null();
  if (type == "array") return value.is_array();
  return type == "object" && value.is_object();
}

std::string object_violation(const Json& value, const Json& schema, const Json& root) {
  const Json* properties = schema.find("properties");
  const Json* additional = schema.find("additionalProperties");
  for (const auto& [key, part] : value.as_object()) {
    const Json* rule = properties ? properties->find(key) : nullptr;
    if (rule == nullptr && additional && additional->is_object()) rule = additional;
    if (rule == nullptr) return concat("the property ", key, " is not allowed");
    if (auto wrong = schema_violation(part, *rule, root); !wrong.empty()) return concat(key, ": ", wrong);
  }
  if (const Json* required = schema.find("required")) {
    for (const Json& key : required->as_array()) {
      if (!value.contains(key.as_string())) return concat("the property ", key.as_string(), " is missing");
    }
  }
  return "";
}

std::string array_violation(const Json& value, const Json& schema, const Json& root) {
  const auto size = static_cast<int64_t>(value.size());
  if (const Json* least = schema.find("minItems"); least && size < least->as_int()) return "too few items";
  if (const Json* most = schema.find("maxItems"); most && size > most->as_int()) return "too many items";
  const Json* items = schema.find("items");
  for (const Json& item : value.as_array()) {
    if (auto wrong = items ? schema_violation(item, *items, root) : ""; !wrong.empty()) return concat("item: ", wrong);
  }
  return "";
}

std::string string_violation(const std::string& value, const Json& schema) {
  const auto length = static_cast<int64_t>(utf8::count(value));
  if (const Json* least = schema.find("minLength"); least && length < least->as_int()) return "too short";
  if (const Json* most = schema.find("maxLength"); most && length > most->as_int()) return "too long";
  const Json* pattern = schema.find("pattern");
  if (pattern && !std::regex_search(value, std::regex(pattern->as_string()))) return "the pattern does not match";
  return "";
}

std::string number_violation(double value, const Json& schema) {
  if (const Json* least = schema.find("minimum"); least && value < least->as_double()) return "too small";
  if (const Json* most = schema.find("maximum"); most && value > most->as_double()) return "too large";
  if (const Json* limit = schema.find("exclusiveMaximum"); limit && value >= limit->as_double()) return "too large";
  return "";
}

const Json& resolve(const std::string& reference, const Json& root) {
  const Json* at = &root;
  for (std::size_t begin = 2; begin < reference.size();) {
    const std::size_t end = std::min(reference.find('/', begin), reference.size());
    at = &at->at(reference.substr(begin, end - begin));
    begin = end + 1;
  }
  return *at;
}

}  // namespace

std::shared_ptr<const Tokenizer> byte_level_tokenizer() {
  Json vocabulary = Json::object(), added = Json::array();
  const auto add = [&](const std::string& name) { vocabulary[name] = static_cast<int64_t>(vocabulary.size()); };
  for (int byte = 0; byte < 256; ++byte) add(byte_level_name(std::string(1, static_cast<char>(byte))));
  for (const char* text : {"{\"",  "\":",      "\": \"",   "\", \"",    "\"}",        "}]",   "true", "false",
                           "null", "name",     " the",     "\n  ",      "[]",         "{}",   "12",   "00",
                           "ab",   "\xC3\xB6", "\xE2\x82", "a\xF0\x9F", "\x98\x80\"", "\\\"", "yes"})
    add(byte_level_name(text));
  for (const auto& [text, special] : {std::pair{"<tool>", false}, {"<s>", true}, {"</s>", true}}) {
    added.push_back(Json::object({{"id", static_cast<int64_t>(vocabulary.size() + added.size())},
                                  {"content", text},
                                  {"single_word", false},
                                  {"lstrip", false},
                                  {"rstrip", false},
                                  {"normalized", false},
                                  {"special", special}}));
  }
  const Json bytes =
      Json::object({{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}});
  const Json model = Json::object({{"type", "BPE"}, {"vocab", vocabulary}, {"merges", Json::array()}});
  return JsonTokenizer::from_json(
      Json::object({{"added_tokens", added}, {"pre_tokenizer", bytes}, {"decoder", bytes}, {"model", model}}).dump());
}

GrammarWorld::GrammarWorld(int64_t extra_vocabulary)
    : tokenizer(byte_level_tokenizer()),
      vocab_size(tokenizer->vocab_size() + extra_vocabulary),
      end(tokenizer->token_to_id("</s>").value()),
      compiler(make_grammar_compiler(tokenizer, vocab_size, {end})) {}

std::vector<int32_t> GrammarWorld::mask(GrammarMatcher& matcher) const {
  std::vector<int32_t> words(mask_words(vocab_size));
  matcher.fill_mask(words);
  return words;
}

bool GrammarWorld::matches(const CompiledGrammar& grammar, const std::string& text) const {
  const auto matcher = grammar.matcher();
  for (const int32_t token : tokenizer->encode_ids(text, false)) {
    const bool allowed = mask_allows(mask(*matcher), token);
    if (matcher->accept(token) != allowed) throw Error("the mask and accept do not agree");
    if (!allowed) return false;
  }
  return mask_allows(mask(*matcher), end) && matcher->accept(end) && matcher->is_terminated();
}

Drawn draw(const GrammarWorld& world, const CompiledGrammar& grammar, std::mt19937& random, int max_tokens) {
  const std::string closers = "\"}],:0123456789ab";
  const auto matcher = grammar.matcher();
  std::vector<int32_t> tokens, allowed, close;
  for (int step = 0; step < max_tokens; ++step) {
    const auto words = world.mask(*matcher);
    allowed.clear();
    close.clear();
    for (int32_t token = 0; token < world.vocab_size; ++token) {
      if (!mask_allows(words, token)) continue;
      allowed.push_back(token);
      if (token == world.end || (token < 128 && closers.find(static_cast<char>(token)) != std::string::npos))
        close.push_back(token);
    }
    if (allowed.empty()) throw Error("nothing may come next");
    const auto& pool = !close.empty() && random() % 4 != 0 ? close : allowed;
    const int32_t token = pool[random() % pool.size()];
    if (!matcher->accept(token)) throw Error("a token of the mask is not accepted");
    if (token == world.end) return {world.tokenizer->decode(tokens), true};
    tokens.push_back(token);
  }
  return {world.tokenizer->decode(tokens), false};
}

std::string schema_violation(const Json& value, const Json& schema, const Json& root) {
  if (schema.is_bool()) return schema.as_bool() ? "" : "nothing is allowed";
  if (const Json* reference = schema.find("$ref"))
    return schema_violation(value, resolve(reference->as_string(), root), root);
  if (const Json* options = schema.find("anyOf")) {
    const bool any = std::any_of(options->as_array().begin(), options->as_array().end(),
                                 [&](const Json& option) { return schema_violation(value, option, root).empty(); });
    return any ? "" : "no case of anyOf matches";
  }
  if (const Json* values = schema.find("enum")) {
    const auto& list = values->as_array();
    return std::find(list.begin(), list.end(), value) == list.end() ? "not in the enum" : "";
  }
  if (const Json* constant = schema.find("const")) return value == *constant ? "" : "not the constant";
  if (const Json* type = schema.find("type")) {
    if (!is_of_type(value, type->as_string())) return concat("not of type ", type->as_string());
  }
  if (value.is_object()) return object_violation(value, schema, root);
  if (value.is_array()) return array_violation(value, schema, root);
  if (value.is_string()) return string_violation(value.as_string(), schema);
  return value.is_number() ? number_violation(value.as_double(), schema) : "";
}

}  // namespace easydel::serve::test

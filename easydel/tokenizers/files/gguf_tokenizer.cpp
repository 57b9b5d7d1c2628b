#include "easydel/tokenizers/files/gguf_tokenizer.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "easydel/core/error.h"
#include "easydel/core/text/quoted.h"
#include "easydel/tokenizers/files/gguf_splits.h"
#include "easydel/tokenizers/files/json_tokenizer.h"
#include "easydel/tokenizers/sentencepiece/sentencepiece_tokenizer.h"

namespace easydel {
namespace {

// llama.cpp's token types are sentencepiece's.
constexpr int32_t kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6;

std::string key(std::string_view name) { return concat("tokenizer.ggml.", name); }

bool flag(const GgufContainer& gguf, std::string_view name, bool otherwise) {
  const GgufValue* value = gguf.find(key(name));
  return value ? value->as_bool() : otherwise;
}

struct Tokens {
  std::span<const std::string_view> texts;
  std::vector<int32_t> types;  // of each
};

template <class T>
std::vector<T> numbers(const GgufContainer& gguf, std::string_view name, GgufValueType type, std::size_t count,
                       const std::string& where) {
  const GgufValue* value = gguf.find(key(name));
  if (!value) return {};
  const GgufArray& array = value->as_array();
  require<FormatError>(array.type == type && array.size == count, "[", where, "] ", key(name), " must be ", count, " ",
                       gguf_value_type_name(type), " numbers, one for each token; got ", array.size, " of type ",
                       gguf_value_type_name(array.type), ".");
  std::vector<T> out(count);
  if (count > 0) std::memcpy(out.data(), array.numbers.data(), count * sizeof(T));
  return out;
}

Tokens read_tokens(const GgufContainer& gguf, const std::string& where) {
  const GgufValue* list = gguf.find(key("tokens"));
  require<FormatError>(list && list->as_array().type == GgufValueType::String, "[", where, "] ", key("tokens"),
                       " must be a list of strings.");
  Tokens tokens;
  tokens.texts = list->as_array().strings;
  tokens.types = numbers<int32_t>(gguf, "token_type", GgufValueType::Int32, tokens.texts.size(), where);
  if (tokens.types.empty()) tokens.types.assign(tokens.texts.size(), kNormal);
  return tokens;
}

std::optional<int32_t> special_id(const GgufContainer& gguf, std::string_view name, std::size_t tokens,
                                  const std::string& where) {
  const GgufValue* value = gguf.find(concat(key(name), "_token_id"));
  if (!value) return std::nullopt;
  const int64_t id = value->as_int();
  require<FormatError>(id >= 0 && id < static_cast<int64_t>(tokens), "[", where, "] ", key(name),
                       "_token_id must be below ", tokens, ", the number of tokens; got ", id, ".");
  return static_cast<int32_t>(id);
}

// The few fields of sentencepiece's ModelProto that its library needs, in protobuf's wire format.
class Message {
 public:
  Message& number(int field, uint64_t value) {
    varint(static_cast<uint64_t>(field) << 3);
    varint(value);
    return *this;
  }
  Message& real(int field, float value) {
    varint(static_cast<uint64_t>(field) << 3 | 5);
    char bytes[4];
    std::memcpy(bytes, &value, sizeof bytes);
    text_.append(bytes, sizeof bytes);
    return *this;
  }
  Message& bytes(int field, std::string_view value) {
    varint(static_cast<uint64_t>(field) << 3 | 2);
    varint(value.size());
    text_.append(value);
    return *this;
  }
  const std::string& text() const { return text_; }

 private:
  void varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) text_ += static_cast<char>(value | 0x80);
    text_ += static_cast<char>(value);
  }
  std::string text_;
};

struct SentencePieceParts {
  std::string model;  // the bytes of a tokenizer.model
  SentencePieceOptions options;
};

SentencePieceParts sentencepiece(const GgufContainer& gguf, const std::string& where) {
  const Tokens tokens = read_tokens(gguf, where);
  const auto scores = numbers<float>(gguf, "scores", GgufValueType::Float32, tokens.texts.size(), where);
  require<FormatError>(!scores.empty(), "[", where, "] ", key("scores"),
                       " is required for a tokenizer of model "
                       "\"llama\".");
  Message model;
  bool has_bytes = false;
  std::vector<SentencePieceAddedToken> added;
  for (std::size_t i = 0; i < tokens.texts.size(); ++i) {
    Message piece;
    const int32_t type = tokens.types[i];
    piece.bytes(1, tokens.texts[i]).real(2, scores[i]).number(3, static_cast<uint64_t>(type));
    model.bytes(1, piece.text());
    has_bytes = has_bytes || type == kByte;
    if (type == kControl || type == kUserDefined)
      added.push_back(
          {.id = static_cast<int32_t>(i), .content = std::string(tokens.texts[i]), .special = type == kControl});
  }
  Message trainer, normalizer;
  const auto bos = special_id(gguf, "bos", tokens.texts.size(), where);
  const auto eos = special_id(gguf, "eos", tokens.texts.size(), where);
  const auto unk = special_id(gguf, "unknown", tokens.texts.size(), where);
  trainer.number(3, 2);  // BPE
  if (has_bytes) trainer.number(35, 1);
  if (unk) trainer.number(40, static_cast<uint64_t>(*unk));
  if (bos) trainer.number(41, static_cast<uint64_t>(*bos));
  if (eos) trainer.number(42, static_cast<uint64_t>(*eos));
  normalizer.bytes(1, "identity");
  normalizer.number(3, flag(gguf, "add_space_prefix", true));
  normalizer.number(4, flag(gguf, "remove_extra_whitespaces", false));
  normalizer.number(5, 1);
  model.bytes(2, trainer.text()).bytes(3, normalizer.text());
  const auto name = [&](const std::optional<int32_t>& id) {
    return id ? std::string(tokens.texts[static_cast<std::size_t>(*id)]) : std::string();
  };
  SentencePieceOptions options{.add_bos = flag(gguf, "add_bos_token", true),
                               .add_eos = flag(gguf, "add_eos_token", false),
                               .bos_token = name(bos),
                               .eos_token = name(eos),
                               .legacy = true,
                               .added_tokens = std::move(added)};
  return {model.text(), std::move(options)};
}

Json byte_level(bool use_regex) {
  return Json::object(
      {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", use_regex}});
}

const GgufSplit& find_split(const GgufContainer& gguf, const std::string& where) {
  const GgufValue* given = gguf.find(key("pre"));
  const std::string_view name = given ? given->as_string() : "default";
  const auto split =
      std::find_if(kGgufSplits.begin(), kGgufSplits.end(), [&](const GgufSplit& s) { return s.name == name; });
  if (split == kGgufSplits.end()) {
    std::string known;
    for (const GgufSplit& each : kGgufSplits) known += concat(known.empty() ? "" : ", ", each.name);
    fail<NotSupportedError>("[", where, "] ", key("pre"), " must be one of ", known, "; got ", quoted(name), ".");
  }
  return *split;
}

Json pre_tokenizer(const GgufSplit& split) {
  if (split.single_digits)
    return Json::object({{"type", "Sequence"},
                         {"pretokenizers", Json::array({Json::object({{"type", "Digits"}, {"individual_digits", true}}),
                                                        byte_level(true)})}});
  if (split.pattern.empty()) return byte_level(true);
  Json pattern = Json::object();
  pattern["Regex"] = std::string(split.pattern);
  const Json first =
      Json::object({{"type", "Split"}, {"pattern", pattern}, {"behavior", "Isolated"}, {"invert", false}});
  return Json::object({{"type", "Sequence"}, {"pretokenizers", Json::array({first, byte_level(false)})}});
}

Json special_template(const GgufContainer& gguf, const Tokens& tokens, const std::string& where) {
  Json parts = Json::array(), specials = Json::object();
  const auto add = [&](std::string_view which) {
    const auto id = special_id(gguf, which, tokens.texts.size(), where);
    if (!id || !flag(gguf, concat("add_", which, "_token"), false)) return;
    const std::string text(tokens.texts[static_cast<std::size_t>(*id)]);
    parts.push_back(Json::object({{"SpecialToken", Json::object({{"id", text}, {"type_id", 0}})}}));
    specials[text] = Json::object({{"id", text}, {"ids", Json::array({*id})}, {"tokens", Json::array({text})}});
  };
  add("bos");
  parts.push_back(Json::object({{"Sequence", Json::object({{"id", "A"}, {"type_id", 0}})}}));
  add("eos");
  if (specials.size() == 0) return byte_level(true);
  return Json::object(
      {{"type", "TemplateProcessing"}, {"single", parts}, {"pair", parts}, {"special_tokens", specials}});
}

// The text of a tokenizer.json.
std::string byte_bpe(const GgufContainer& gguf, const std::string& where) {
  const Tokens tokens = read_tokens(gguf, where);
  const GgufValue* merges = gguf.find(key("merges"));
  require<FormatError>(merges && merges->as_array().type == GgufValueType::String, "[", where, "] ", key("merges"),
                       " must be a list of strings for a tokenizer of model \"gpt2\".");
  Json vocabulary = Json::object(), added = Json::array(), list = Json::array();
  for (std::size_t i = 0; i < tokens.texts.size(); ++i) {
    const std::string text(tokens.texts[i]);
    const int32_t type = tokens.types[i];
    if (type == kUnused) continue;
    require<FormatError>(!vocabulary.contains(text), "[", where, "] ", key("tokens"), " has ", quoted(text), " twice.");
    vocabulary[text] = static_cast<int64_t>(i);
    if (type != kControl && type != kUserDefined && type != kUnknown) continue;
    added.push_back(Json::object({{"id", static_cast<int64_t>(i)},
                                  {"content", text},
                                  {"single_word", false},
                                  {"lstrip", false},
                                  {"rstrip", false},
                                  {"normalized", false},
                                  {"special", type != kUserDefined}}));
  }
  for (const std::string_view merge : merges->as_array().strings) list.push_back(std::string(merge));
  const GgufSplit& split = find_split(gguf, where);
  Json json = Json::object({{"version", "1.0"}, {"truncation", Json()}, {"padding", Json()}, {"normalizer", Json()}});
  if (split.composes) json["normalizer"] = Json::object({{"type", "NFC"}});
  json["added_tokens"] = added;
  json["pre_tokenizer"] = pre_tokenizer(split);
  json["post_processor"] = special_template(gguf, tokens, where);
  json["decoder"] = byte_level(true);
  json["model"] = Json::object({{"type", "BPE"},
                                {"dropout", Json()},
                                {"unk_token", Json()},
                                {"continuing_subword_prefix", Json()},
                                {"end_of_word_suffix", Json()},
                                {"fuse_unk", false},
                                {"byte_fallback", false},
                                {"ignore_merges", split.pattern == kLlama3Split},
                                {"vocab", vocabulary},
                                {"merges", list}});
  return json.dump();
}

// Otherwise byte-level BPE.
bool is_sentencepiece(const GgufContainer& gguf, const std::string& where) {
  require<FormatError>(has_tokenizer(gguf), "[", where, "] the file has no ", key("model"),
                       " and therefore no tokenizer.");
  const std::string_view model = gguf.find(key("model"))->as_string();
  require<NotSupportedError>(model == "llama" || model == "gpt2", "[", where, "] ", key("model"),
                             " must be llama or gpt2; got ", quoted(model), ".");
  return model == "llama";
}

}  // namespace

bool has_tokenizer(const GgufContainer& gguf) { return gguf.find(key("model")) != nullptr; }

std::shared_ptr<const Tokenizer> gguf_tokenizer(const GgufContainer& gguf, const std::string& where) {
  if (!is_sentencepiece(gguf, where)) return JsonTokenizer::from_json(byte_bpe(gguf, where), where);
  const SentencePieceParts parts = sentencepiece(gguf, where);
  return SentencePieceTokenizer::from_bytes(parts.model, parts.options, where);
}

std::map<std::string, std::string> gguf_tokenizer_files(const GgufContainer& gguf, const std::string& where) {
  const bool pieces = is_sentencepiece(gguf, where);
  const TokenizerConfig config = gguf_tokenizer_config(gguf);
  Json json = Json::object({{"tokenizer_class", pieces ? "LlamaTokenizer" : "PreTrainedTokenizerFast"},
                            {"add_bos_token", *config.add_bos_token},
                            {"add_eos_token", *config.add_eos_token}});
  for (const auto& [name, text] : config.special_tokens) json[name] = text;
  if (const std::string* source = config.chat_templates.find("default")) json["chat_template"] = *source;
  std::map<std::string, std::string> files;
  if (pieces) {
    const SentencePieceParts parts = sentencepiece(gguf, where);
    Json added = Json::object();
    for (const SentencePieceAddedToken& token : parts.options.added_tokens)
      added[std::to_string(token.id)] = Json::object({{"content", token.content},
                                                      {"lstrip", false},
                                                      {"normalized", false},
                                                      {"rstrip", false},
                                                      {"single_word", false},
                                                      {"special", token.special}});
    json["added_tokens_decoder"] = added;
    json["legacy"] = parts.options.legacy;
    files["tokenizer.model"] = parts.model;
  } else {
    files["tokenizer.json"] = byte_bpe(gguf, where);
  }
  files["tokenizer_config.json"] = json.dump(2) + "\n";
  return files;
}

TokenizerConfig gguf_tokenizer_config(const GgufContainer& gguf) {
  TokenizerConfig config;
  const Tokens tokens = read_tokens(gguf, "GGUF");
  for (const auto& [name, called] :
       {std::pair{"bos", "bos_token"}, {"eos", "eos_token"}, {"unknown", "unk_token"}, {"padding", "pad_token"}}) {
    if (const auto id = special_id(gguf, name, tokens.texts.size(), "GGUF"))
      config.special_tokens.emplace_back(called, std::string(tokens.texts[static_cast<std::size_t>(*id)]));
  }
  const bool is_llama = gguf.find(key("model"))->as_string() == "llama";
  config.add_bos_token = flag(gguf, "add_bos_token", is_llama);
  config.add_eos_token = flag(gguf, "add_eos_token", false);
  if (const GgufValue* text = gguf.find("tokenizer.chat_template"))
    config.chat_templates.set("default", std::string(text->as_string()));
  return config;
}

}  // namespace easydel

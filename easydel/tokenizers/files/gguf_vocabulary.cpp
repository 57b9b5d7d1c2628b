#include "easydel/tokenizers/files/gguf_vocabulary.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/core/text/quoted.h"
#include "easydel/tokenizers/files/gguf_splits.h"
#include "easydel/tokenizers/files/tokenizer_config.h"

namespace easydel {
namespace {

namespace fs = std::filesystem;

// As sentencepiece numbers them.
struct TokenKind {
  static constexpr int32_t Normal = 1, Control = 3, UserDefined = 4, Unused = 5;
};

struct TokenList {
  std::vector<std::string> texts;
  std::vector<int32_t> kinds;
  std::vector<float> scores;

  void grow(std::size_t size) {
    for (std::size_t i = texts.size(); i < size; ++i) texts.push_back(concat("[PAD", i, "]"));
    kinds.resize(texts.size(), TokenKind::Unused);
    scores.resize(texts.size(), 0.0F);
  }
  void set(int64_t id, const std::string& text, int32_t kind) {
    const auto place = static_cast<std::size_t>(id);
    grow(place + 1);
    texts[place] = text;
    kinds[place] = kind;
  }
  std::optional<uint32_t> find(const std::string& text) const {
    const auto found = std::find(texts.begin(), texts.end(), text);
    if (found == texts.end()) return std::nullopt;
    return static_cast<uint32_t>(found - texts.begin());
  }
};

// Of sentencepiece's ModelProto: a field of a message, by its number.
class WireFields {
 public:
  WireFields(std::string_view bytes, std::string where) : bytes_(bytes), where_(std::move(where)) {}

  struct Field {
    uint64_t number = 0, value = 0;
    std::string_view text;
  };
  std::optional<Field> next() {
    if (at_ >= bytes_.size()) return std::nullopt;
    const uint64_t key = varint();
    Field field{key >> 3, 0, {}};
    const uint64_t wire = key & 7;
    if (wire == 0) {
      field.value = varint();
    } else {
      field.text = take(wire == 2 ? varint() : wire == 5 ? 4 : wire == 1 ? 8 : bytes_.size() + 1);
    }
    return field;
  }

 private:
  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<uint8_t>(take(1)[0]);
      value |= static_cast<uint64_t>(byte & 127) << shift;
      if (byte < 128) return value;
    }
    fail<FormatError>("[", where_, "] is not a sentencepiece model.");
  }
  std::string_view take(uint64_t count) {
    require<FormatError>(count <= bytes_.size() - at_, "[", where_, "] is not a sentencepiece model, or was cut off.");
    const std::string_view taken = bytes_.substr(at_, count);
    at_ += count;
    return taken;
  }

  std::string_view bytes_;
  std::string where_;
  std::size_t at_ = 0;
};

TokenList read_pieces(const fs::path& file) {
  const std::string bytes = read_file(file);
  WireFields model(bytes, file.string());
  TokenList vocabulary;
  while (const auto field = model.next()) {
    if (field->number == 2) {
      WireFields trainer(field->text, file.string());
      while (const auto setting = trainer.next()) {
        require<NotSupportedError>(setting->number != 3 || setting->value == 2, "[", file.string(),
                                   "] GGUF files are written with sentencepiece's BPE models; this is another kind.");
      }
    }
    if (field->number != 1) continue;
    WireFields piece(field->text, file.string());
    std::string text;
    float score = 0;
    int32_t kind = TokenKind::Normal;
    while (const auto part = piece.next()) {
      if (part->number == 1) text = part->text;
      if (part->number == 2 && part->text.size() == sizeof score) std::memcpy(&score, part->text.data(), sizeof score);
      if (part->number == 3) kind = static_cast<int32_t>(part->value);
    }
    vocabulary.set(static_cast<int64_t>(vocabulary.texts.size()), text, kind);
    vocabulary.scores.back() = score;
  }
  return vocabulary;
}

// The name of tokenizer.ggml.pre for the split that tokenizer.json describes.
std::string_view split_of(const Json& json, const std::string& where) {
  std::vector<const Json*> steps;
  if (const Json* given = json.find("pre_tokenizer"); given && given->is_object()) {
    if (const Json* list = given->find("pretokenizers")) {
      for (const Json& step : list->as_array()) steps.push_back(&step);
    } else {
      steps.push_back(given);
    }
  }
  std::string pattern;
  bool digits = false, is_known = !steps.empty();
  for (const Json* step : steps) {
    const std::string type = step->at("type").as_string();
    if (type == "Split") {
      const Json* regex = step->at("pattern").find("Regex");
      pattern = regex && regex->is_string() ? regex->as_string() : "?";
    } else if (type == "Digits") {
      digits = step->find("individual_digits") && *step->find("individual_digits") == Json(true);
    } else {
      const Json* space = step->find("add_prefix_space");
      is_known &= type == "ByteLevel" && (!space || *space == Json(false));
    }
  }
  const Json* normalizer = json.find("normalizer");
  const bool composes = normalizer && normalizer->is_object() && normalizer->at("type") == Json("NFC");
  is_known &= composes || !normalizer || normalizer->is_null();
  for (const GgufSplit& split : kGgufSplits) {
    if (is_known && split.pattern == pattern && split.single_digits == digits && split.composes == composes)
      return split.name;
  }
  fail<NotSupportedError>("[", where, "] GGUF files are written with tokenizers that split text as llama-bpe, qwen2, ",
                          "gpt-2 or smollm do; this one has the pre_tokenizer ",
                          json.find("pre_tokenizer") ? json.find("pre_tokenizer")->dump() : "null", ".");
}

// Whether tokenizer.json puts the token around a text.
bool adds(const Json& json, const std::optional<std::string>& token) {
  const Json* post = json.find("post_processor");
  if (!token || !post || !post->is_object()) return false;
  std::vector<const Json*> steps{post};
  if (const Json* list = post->find("processors")) {
    for (const Json& step : list->as_array()) steps.push_back(&step);
  }
  for (const Json* step : steps) {
    const Json* parts = step->find("single");
    if (!parts || !parts->is_array()) continue;
    for (const Json& part : parts->as_array()) {
      const Json* special = part.find("SpecialToken");
      if (special && special->at("id") == Json(*token)) return true;
    }
  }
  return false;
}

TokenList read_byte_bpe(GgufMetadata& metadata, const Json& json, const std::string& where) {
  const Json& model = json.at("model");
  const Json* type = model.find("type");
  require<NotSupportedError>(
      (!type || *type == Json("BPE")) && !(model.find("byte_fallback") && model.at("byte_fallback") == Json(true)), "[",
      where, "] GGUF files are written with BPE on bytes, or with a tokenizer.model; this is ",
      type ? type->dump() : "another kind", ".");
  metadata.add("tokenizer.ggml.pre", split_of(json, where));
  TokenList vocabulary;
  for (const auto& [text, id] : model.at("vocab").as_object()) vocabulary.set(id.as_int(), text, TokenKind::Normal);
  std::vector<std::string> merges;
  for (const Json& merge : model.at("merges").as_array())
    merges.push_back(merge.is_string()
                         ? merge.as_string()
                         : concat(merge.at(std::size_t{0}).as_string(), " ", merge.at(std::size_t{1}).as_string()));
  if (const Json* added = json.find("added_tokens")) {
    for (const Json& token : added->as_array())
      vocabulary.set(token.at("id").as_int(), token.at("content").as_string(),
                     token.at("special") == Json(true) ? TokenKind::Control : TokenKind::UserDefined);
  }
  metadata.add("tokenizer.ggml.merges", merges);
  return vocabulary;
}

}  // namespace

void add_gguf_vocabulary(GgufMetadata& metadata, const fs::path& directory, int64_t rows) {
  const fs::path pieces = directory / "tokenizer.model", bytes = directory / "tokenizer.json";
  const bool has_pieces = fs::is_regular_file(pieces);
  require<IoError>(has_pieces || fs::is_regular_file(bytes), "[", directory.string(),
                   "] has no tokenizer.json or tokenizer.model, which a GGUF file holds.");
  const TokenizerConfig config = TokenizerConfig::load(directory);
  const Json json = has_pieces ? Json::object() : Json::parse_file(bytes.string());
  metadata.add("tokenizer.ggml.model", has_pieces ? "llama" : "gpt2");
  TokenList vocabulary = has_pieces ? read_pieces(pieces) : read_byte_bpe(metadata, json, bytes.string());
  if (has_pieces) {
    if (const Json* added = config.values.find("added_tokens_decoder"); added && added->is_object()) {
      for (const auto& [id, token] : added->as_object()) {
        const int64_t place = Json::parse(id, {.where = "added_tokens_decoder"}).as_int();
        if (place >= static_cast<int64_t>(vocabulary.texts.size()))
          vocabulary.set(place, token.at("content").as_string(),
                         token.at("special") == Json(true) ? TokenKind::Control : TokenKind::UserDefined);
      }
    }
  }
  require<FormatError>(static_cast<int64_t>(vocabulary.texts.size()) <= rows, "[", directory.string(),
                       "] the tokenizer has ", vocabulary.texts.size(), " tokens, and the model ", rows, ".");
  vocabulary.grow(static_cast<std::size_t>(rows));
  metadata.add("tokenizer.ggml.tokens", vocabulary.texts);
  if (has_pieces) metadata.add("tokenizer.ggml.scores", vocabulary.scores);
  metadata.add("tokenizer.ggml.token_type", vocabulary.kinds);
  for (const auto& [name, called] :
       {std::pair{"bos_token", "bos"}, {"eos_token", "eos"}, {"unk_token", "unknown"}, {"pad_token", "padding"}}) {
    const auto text = config.special_token(name);
    const auto id = text ? vocabulary.find(*text) : std::nullopt;
    if (id) metadata.add(concat("tokenizer.ggml.", called, "_token_id"), *id);
  }
  metadata.add("tokenizer.ggml.add_bos_token",
               config.add_bos_token.value_or(has_pieces || adds(json, config.special_token("bos_token"))));
  metadata.add("tokenizer.ggml.add_eos_token",
               config.add_eos_token.value_or(adds(json, config.special_token("eos_token"))));
  if (const std::string* source = config.chat_templates.find("default"))
    metadata.add("tokenizer.chat_template", std::string_view(*source));
}

}  // namespace easydel

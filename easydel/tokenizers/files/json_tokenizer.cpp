#include "easydel/tokenizers/files/json_tokenizer.h"

#include "easydel/core/files/file.h"
#include "easydel/tokenizers/files/json_tokenizer_parts.h"

namespace easydel {
namespace {

template <class Make>
auto make_if(const std::optional<JsonField>& field, const Make& make) {
  return field ? make(*field) : decltype(make(*field)){};
}

// Nested parts: each of them processes the entire text.
std::size_t count_parts(const Json& value) {
  std::size_t total = value.contains("type") ? 1 : 0;
  if (value.is_array()) {
    for (const Json& part : value.as_array()) total += count_parts(part);
  } else if (value.is_object()) {
    for (const auto& [key, part] : value.as_object()) total += count_parts(part);
  }
  return total;
}

void check_room(const Truncation& truncation, const PostProcessor& processor) {
  const std::size_t special = processor.added_tokens(false);
  require<ConfigError>(truncation.max_length >= special && truncation.max_length - special >= truncation.stride,
                       "[Tokenizer] a truncation to ", truncation.max_length, " tokens must leave room for ", special,
                       " special ones and a stride of ", truncation.stride, ".");
}

}  // namespace

JsonTokenizer::Parts::Parts(const JsonField& root)
    : normalizer(make_if(root.find("normalizer"), make_normalizer)),
      pre_tokenizer(make_if(root.find("pre_tokenizer"), make_pre_tokenizer)),
      model(make_token_model(root["model"])),
      added(root.find("added_tokens"), *model, normalizer.get()),
      post_processor(make_if(root.find("post_processor"), [](const JsonField& field) { return PostProcessor(field); })),
      decoder(make_if(root.find("decoder"), make_token_decoder)),
      truncation(read_truncation(root.find("truncation"))),
      padding(read_padding(root.find("padding"))) {
  if (const auto version = root.find("version")) version->one_of({"1.0"});
  always_tracks = (normalizer && normalizer->needs_alignment()) || (pre_tokenizer && pre_tokenizer->needs_origin());
}

JsonTokenizer::JsonTokenizer(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
JsonTokenizer::~JsonTokenizer() = default;

std::shared_ptr<JsonTokenizer> JsonTokenizer::from_file(const std::filesystem::path& path) {
  return from_json(read_file(path), path.string());
}

std::shared_ptr<JsonTokenizer> JsonTokenizer::from_json(std::string_view text, const std::string& where) {
  const Json document = Json::parse(text, {.where = where, .max_depth = 64});
  const JsonField root(document, where, "");
  root.as_object();
  for (const char* key : {"normalizer", "pre_tokenizer", "post_processor", "decoder"}) {
    constexpr std::size_t kMax = 128;
    const auto part = root.find(key);
    if (part && count_parts(part->json()) > kMax) part->refuse("must not have more than ", kMax, " parts.");
  }
  auto parts = std::make_unique<Parts>(root);
  if (parts->truncation) check_room(*parts->truncation, parts->post_processor);
  return std::shared_ptr<JsonTokenizer>(new JsonTokenizer(std::move(parts)));
}

std::string JsonTokenizer::decode(std::span<const int32_t> ids, bool skip_special_tokens) const {
  std::vector<std::string> tokens;
  tokens.reserve(ids.size());
  for (const int32_t id : ids) {
    if (skip_special_tokens && parts_->added.is_special(id)) continue;
    if (const std::string* added = parts_->added.text_of(id)) {
      tokens.push_back(*added);
    } else if (const auto token = parts_->model->id_to_token(id)) {
      tokens.emplace_back(*token);
    }
  }
  std::string text;
  if (parts_->decoder) {
    parts_->decoder->apply(tokens);
    for (const std::string& token : tokens) text += token;
  } else {
    for (const std::string& token : tokens) {
      if (&token != &tokens.front()) text += ' ';
      text += token;
    }
  }
  return text;
}

std::optional<int32_t> JsonTokenizer::token_to_id(std::string_view token) const {
  int32_t id = parts_->added.token_to_id(token);
  if (id < 0) id = parts_->model->token_to_id(token);
  return id < 0 ? std::nullopt : std::optional(id);
}

std::optional<std::string> JsonTokenizer::id_to_token(int32_t id) const {
  if (const std::string* added = parts_->added.text_of(id)) return *added;
  const auto token = parts_->model->id_to_token(id);
  return token ? std::optional<std::string>(*token) : std::nullopt;
}

int64_t JsonTokenizer::vocab_size() const {
  return static_cast<int64_t>(parts_->model->vocab_size() + parts_->added.count_beyond(*parts_->model));
}

bool JsonTokenizer::is_special(int32_t id) const { return parts_->added.is_special(id); }

const std::optional<Truncation>& JsonTokenizer::truncation() const { return parts_->truncation; }
const std::optional<Padding>& JsonTokenizer::padding() const { return parts_->padding; }

void JsonTokenizer::set_truncation(const std::optional<Truncation>& truncation) {
  if (truncation) check_room(*truncation, parts_->post_processor);
  parts_->truncation = truncation;
}

void JsonTokenizer::set_padding(std::optional<Padding> padding) { parts_->padding = std::move(padding); }

}  // namespace easydel

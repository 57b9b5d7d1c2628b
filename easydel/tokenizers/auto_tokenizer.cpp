#include "easydel/tokenizers/auto_tokenizer.h"

#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/io/gguf/gguf_file.h"
#include "easydel/tokenizers/files/gguf_tokenizer.h"
#include "easydel/tokenizers/files/json_tokenizer.h"
#include "easydel/tokenizers/sentencepiece/sentencepiece_tokenizer.h"

namespace easydel {
namespace {

constexpr const char* kJson = "tokenizer.json";
constexpr const char* kModel = "tokenizer.model";

bool is_in_files(const std::filesystem::path& directory) {
  return std::filesystem::exists(directory / kJson) || std::filesystem::exists(directory / kModel);
}

bool flag(const Json& json, std::string_view key, bool otherwise) {
  const Json* found = json.find(key);
  return found && found->is_bool() ? found->as_bool() : otherwise;
}

// For a sentencepiece model, the added tokens are in tokenizer_config.json, by id.
std::vector<SentencePieceAddedToken> added_tokens(const TokenizerConfig& config) {
  std::vector<SentencePieceAddedToken> tokens;
  const Json* entries = config.values.find("added_tokens_decoder");
  if (!entries || !entries->is_object()) return tokens;
  for (const auto& [id, entry] : entries->as_object()) {
    const Json* content = entry.find("content");
    std::size_t end = 0;
    int32_t number = -1;
    try {
      number = std::stoi(id, &end);
    } catch (const std::exception&) {
    }
    require<FormatError>(number >= 0 && end == id.size() && content && content->is_string(),
                         "[tokenizer_config.json] added_tokens_decoder must map ids to tokens with a content; got \"",
                         id, "\": ", entry.dump(), ".");
    tokens.push_back({.id = number,
                      .content = content->as_string(),
                      .special = flag(entry, "special", false),
                      .lstrip = flag(entry, "lstrip", false),
                      .rstrip = flag(entry, "rstrip", false),
                      .single_word = flag(entry, "single_word", false)});
  }
  return tokens;
}

SentencePieceOptions sentencepiece_options(const TokenizerConfig& config) {
  return {.add_bos = config.add_bos_token.value_or(true),
          .add_eos = config.add_eos_token.value_or(false),
          .bos_token = config.special_token("bos_token").value_or(""),
          .eos_token = config.special_token("eos_token").value_or(""),
          .legacy = flag(config.values, "legacy", true),
          .added_tokens = added_tokens(config)};
}

}  // namespace

bool AutoTokenizer::is_in(const std::filesystem::path& directory) {
  if (is_in_files(directory)) return true;
  const auto gguf = find_gguf(directory);
  return gguf && has_tokenizer(GgufFile::open(*gguf)->container());
}

AutoTokenizer AutoTokenizer::absent(std::string message) {
  AutoTokenizer tokenizer;
  tokenizer.absent_ = std::move(message);
  return tokenizer;
}

const Tokenizer* AutoTokenizer::operator->() const {
  require<ConfigError>(tokenizer_ != nullptr, absent_);
  return tokenizer_.get();
}

AutoTokenizer AutoTokenizer::from_directory(const std::filesystem::path& directory) {
  AutoTokenizer result;
  result.files_ = TokenizerFiles::read(directory);
  if (!is_in_files(directory)) {
    const auto gguf = find_gguf(directory);
    const auto file = gguf ? GgufFile::open(*gguf) : nullptr;
    require<ConfigError>(file && has_tokenizer(file->container()), "[AutoTokenizer] ", directory.string(),
                         " has neither ", kJson, " nor ", kModel, " nor a GGUF file with a tokenizer.");
    result.config_ = gguf_tokenizer_config(file->container());
    result.tokenizer_ = gguf_tokenizer(file->container(), file->where());
    return result;
  }
  result.config_ = TokenizerConfig::load(directory);
  if (std::filesystem::exists(directory / kJson)) {
    const auto tokenizer = JsonTokenizer::from_file(directory / kJson);
    tokenizer->set_truncation(
        {});  // transformers truncates and pads only when a call requests it, whatever the file says
    tokenizer->set_padding({});
    result.tokenizer_ = tokenizer;
  } else {
    result.tokenizer_ = SentencePieceTokenizer::open(directory / kModel, sentencepiece_options(result.config_));
  }
  return result;
}

AutoTokenizer AutoTokenizer::from_pretrained(const std::string& name_or_path, const HubOptions& hub) {
  HubOptions files = hub;
  if (files.files.empty()) {
    files.files = {"tokenizer*.json", "tokenizer*.model", "special_tokens_map*.json", "chat_template*",
                   "additional_chat_templates/*"};
  }
  return from_directory(resolve(name_or_path, files));
}

void AutoTokenizer::save_pretrained(const std::filesystem::path& directory) const {
  make_directory(directory);
  files_.write(directory);
}

RenderedChat AutoTokenizer::apply_chat_template(ChatInput input) const {
  require<ConfigError>(
      has_chat_template(),
      "[chat template] the model has no chat template: neither chat_template.jinja nor a chat_template in "
      "tokenizer_config.json.");
  Json variables = config_.template_variables();
  for (const auto& [key, value] : input.variables.as_object()) variables[key] = value;
  input.variables = variables;
  return config_.chat_templates.select({}, input.tools.has_value()).render(input);
}

std::vector<int32_t> AutoTokenizer::encode_chat(const ChatInput& input) const {
  return tokenizer_->encode_ids(apply_chat_template(input).text, /*add_special_tokens=*/false);
}

}  // namespace easydel

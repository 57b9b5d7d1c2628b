#include "easydel/serve/openai/token_logprobs.h"

#include <array>
#include <charconv>
#include <optional>

#include "easydel/core/error.h"
#include "easydel/core/text/utf8.h"

namespace easydel::serve {
namespace {

// "<0xE2>" of a vocabulary with byte fallback.
std::optional<std::string> logprobs_fallback_byte(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || !token.ends_with('>')) return std::nullopt;
  unsigned value = 0;
  const auto [end, error] = std::from_chars(token.data() + 3, token.data() + 5, value, 16);
  if (error != std::errc() || end != token.data() + 5) return std::nullopt;
  return std::string(1, static_cast<char>(value));
}

// GPT-2's alphabet: each byte is a printable character, its own where that is one, else one from U+0100 on.
std::optional<char> logprobs_alphabet_byte(char32_t code) {
  static const std::array<int, 0x144> bytes = [] {
    std::array<int, 0x144> table{};
    table.fill(-1);
    char32_t next = 0x100;
    for (int byte = 0; byte < 256; ++byte) {
      const bool is_printable =
          (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
      table[is_printable ? static_cast<char32_t>(byte) : next++] = byte;
    }
    return table;
  }();
  if (code >= bytes.size() || bytes[code] < 0) return std::nullopt;
  return static_cast<char>(bytes[code]);
}

std::optional<std::string> logprobs_alphabet_bytes(std::string_view token) {
  std::string out;
  for (std::size_t at = 0; at < token.size();) {
    const auto byte = logprobs_alphabet_byte(utf8::next(token, at));
    if (!byte) return std::nullopt;
    out += *byte;
  }
  return out;
}

Json logprobs_bytes_json(std::string_view bytes) {
  Json::Array values;
  for (const char byte : bytes) values.emplace_back(int{static_cast<unsigned char>(byte)});
  return values;
}

Json logprobs_entry(const Tokenizer& tokenizer, const TokenLogprob& value, bool as_ids) {
  return Json::object({{"token", token_text(tokenizer, value.token, as_ids)},
                       {"logprob", double{value.logprob}},
                       {"bytes", logprobs_bytes_json(token_bytes(tokenizer, value.token))}});
}

}  // namespace

std::string token_bytes(const Tokenizer& tokenizer, int32_t id) {
  const std::string decoded = tokenizer.decode(std::array{id}, /*skip_special_tokens=*/false);
  const std::string token = tokenizer.id_to_token(id).value_or("");
  if (const auto byte = logprobs_fallback_byte(token)) return *byte;
  if (decoded.find("\xEF\xBF\xBD") != std::string::npos) {
    if (const auto bytes = logprobs_alphabet_bytes(token)) return *bytes;
  }
  // Sentencepiece's decoders drop the space at the beginning of a text, which is no beginning here.
  constexpr std::string_view kSpace = "\xE2\x96\x81";
  if (token.starts_with(kSpace) && !decoded.starts_with(' ')) return " " + decoded;
  return decoded;
}

std::string token_text(const Tokenizer& tokenizer, int32_t id, bool as_id) {
  return as_id ? concat("token_id:", id) : utf8::lossy(token_bytes(tokenizer, id));
}

Json chat_logprobs(const Tokenizer& tokenizer, std::span<const TokenLogprobs> logprobs, bool as_ids) {
  Json out = Json::array();
  for (const TokenLogprobs& one : logprobs) {
    Json entry = logprobs_entry(tokenizer, one.chosen, as_ids);
    Json top = Json::array();
    for (const TokenLogprob& other : one.top) top.push_back(logprobs_entry(tokenizer, other, as_ids));
    entry["top_logprobs"] = std::move(top);
    out.push_back(std::move(entry));
  }
  return out;
}

void CompletionLogprobs::add_token(int32_t id) {
  tokens_.emplace_back(token_text(*tokenizer_, id, as_ids_));
  offsets_.emplace_back(offset_);
  offset_ += static_cast<int64_t>(utf8::count(token_text(*tokenizer_, id)));
}

void CompletionLogprobs::add_unknown(int32_t id) {
  add_token(id);
  values_.emplace_back();
  top_.emplace_back();
}

void CompletionLogprobs::add(const TokenLogprobs& logprobs) {
  add_token(logprobs.chosen.token);
  values_.emplace_back(double{logprobs.chosen.logprob});
  // Several tokens may have the same text: the likeliest one stands for it.
  Json top = Json::object();
  for (const TokenLogprob& one : logprobs.top) {
    const std::string text = token_text(*tokenizer_, one.token, as_ids_);
    if (!top.contains(text)) top[text] = double{one.logprob};
  }
  const std::string chosen = token_text(*tokenizer_, logprobs.chosen.token, as_ids_);
  if (!top.contains(chosen)) top[chosen] = double{logprobs.chosen.logprob};
  top_.push_back(std::move(top));
}

Json CompletionLogprobs::take() {
  Json out = Json::object({{"text_offset", std::exchange(offsets_, {})},
                           {"token_logprobs", std::exchange(values_, {})},
                           {"tokens", std::exchange(tokens_, {})},
                           {"top_logprobs", std::exchange(top_, {})}});
  return out;
}

Json prompt_logprobs_json(const Tokenizer& tokenizer, std::span<const TokenLogprobs> logprobs) {
  Json out = Json::array({Json()});
  for (const TokenLogprobs& one : logprobs) {
    Json entry = Json::object();
    const auto set = [&](const TokenLogprob& value, int64_t rank) {
      entry[std::to_string(value.token)] = Json::object(
          {{"logprob", double{value.logprob}}, {"rank", rank}, {"decoded_token", token_text(tokenizer, value.token)}});
    };
    set(one.chosen, one.rank);
    for (std::size_t i = 0; i < one.top.size(); ++i) {
      if (one.top[i].token != one.chosen.token) set(one.top[i], static_cast<int64_t>(i) + 1);
    }
    out.push_back(std::move(entry));
  }
  return out;
}

}  // namespace easydel::serve

#include "easydel/tokenizers/token_bytes.h"

#include <algorithm>

#include "easydel/core/error.h"
#include "easydel/core/text/utf8.h"
#include "easydel/tokenizers/bpe/byte_level.h"

namespace easydel {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// The byte of a token such as <0x0A>; -1: another token.
int byte_of_token_name(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return -1;
  const auto digit = [](char c) -> int {
    if (c >= '0' && c <= '9') return c - '0';
    const char lower = static_cast<char>(c | 32);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
  };
  const int high = digit(token[3]), low = digit(token[4]);
  return high < 0 || low < 0 ? -1 : 16 * high + low;
}

std::optional<std::string> bytes_of_byte_level(std::string_view token) {
  if (invalid_utf8(token) != std::string_view::npos) return std::nullopt;
  std::string bytes;
  for (std::size_t at = 0; at < token.size();) {
    const int byte = byte_level::byte_of(utf8::next(token, at));
    if (byte < 0) return std::nullopt;
    bytes += static_cast<char>(byte);
  }
  return bytes;
}

// The bytes behind a text in which decode has replaced what is not UTF-8.
std::string bytes_behind(const std::string& text, const std::string& token) {
  if (const int byte = byte_of_token_name(token); byte >= 0x80 && text == kReplacement)
    return std::string(1, static_cast<char>(byte));
  if (const auto bytes = bytes_of_byte_level(token); bytes && utf8::lossy(*bytes) == text) return *bytes;
  return text;  // the character U+FFFD itself
}

}  // namespace

TokenBytes::TokenBytes(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {
  for (const char* text : {"a", "e", "x", "0", "A"}) {
    const auto ids = tokenizer.encode_ids(text, /*add_special_tokens=*/false);
    if (!ids.empty() && try_anchor(ids.back())) return;
  }
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    if (try_anchor(id)) return;
  }
  fail<NotSupportedError>("[TokenBytes] every token must have a text of its own; none of the ", tokenizer.vocab_size(),
                          " tokens of this tokenizer reads the same after itself.");
}

bool TokenBytes::try_anchor(int32_t id) {
  const auto token = tokenizer_.id_to_token(id);
  if (!token || tokenizer_.is_special(id) || byte_of_token_name(*token) >= 0) return false;
  const std::string once = tokenizer_.decode(std::vector{id}), twice = tokenizer_.decode(std::vector{id, id});
  const bool plain = std::all_of(twice.begin(), twice.end(), [](unsigned char c) { return c >= ' ' && c < 127; });
  if (!plain || once.empty() || !twice.starts_with(once) || twice.size() == once.size()) return false;
  const std::string after = twice.substr(once.size());
  if (tokenizer_.decode(std::vector{id, id, id}) != twice + after) return false;
  anchor_ = id;
  before_ = once;
  after_ = after;
  return true;
}

std::optional<std::string> TokenBytes::operator()(int32_t id) const {
  const auto token = tokenizer_.id_to_token(id);
  if (!token) return std::nullopt;
  if (tokenizer_.is_special(id)) return token;
  const std::string text = tokenizer_.decode(std::vector{anchor_, id, anchor_}, /*skip_special_tokens=*/false);
  if (text.size() < before_.size() + after_.size() || !text.starts_with(before_) || !text.ends_with(after_))
    return std::nullopt;
  const std::string middle = text.substr(before_.size(), text.size() - before_.size() - after_.size());
  return middle.find(kReplacement) == std::string::npos ? middle : bytes_behind(middle, *token);
}

std::optional<std::string> token_bytes(const Tokenizer& tokenizer, int32_t id) { return TokenBytes(tokenizer)(id); }

}  // namespace easydel

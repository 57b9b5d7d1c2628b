#include "easydel/tokenizers/sentencepiece/sentencepiece_added_tokens.h"

#include <algorithm>

#include "easydel/core/error.h"
#include "easydel/core/text/quoted.h"

namespace easydel {
namespace {

// The size of one white-space character at the start or end of a text; 0: none.
std::size_t blank_size(std::string_view text, bool at_end) {
  const auto fits = [&](std::string_view blank) { return at_end ? text.ends_with(blank) : text.starts_with(blank); };
  if (text.empty()) return 0;
  const char c = at_end ? text.back() : text.front();
  if (c == ' ' || (c >= '\t' && c <= '\r')) return 1;
  if ((c & 0x80) == 0) return 0;
  for (const char* blank :
       {"\u0085", "\u00a0", "\u1680", "\u2000", "\u2001", "\u2002", "\u2003", "\u2004", "\u2005", "\u2006", "\u2007",
        "\u2008", "\u2009", "\u200a", "\u2028", "\u2029", "\u202f", "\u205f", "\u3000"}) {
    if (fits(blank)) return std::string_view(blank).size();
  }
  return 0;
}

// Non-ASCII characters count as letters.
bool is_word(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c & 0x80) != 0;
}

}  // namespace

SentencePieceAddedTokens::SentencePieceAddedTokens(std::vector<SentencePieceAddedToken> tokens)
    : tokens_(std::move(tokens)) {
  for (const SentencePieceAddedToken& token : tokens_) {
    require<ConfigError>(!token.content.empty() && token.id >= 0,
                         "[SentencePieceTokenizer] an added token needs text and a non-negative id; got ",
                         quoted(token.content), " with ", token.id, ".");
    require<ConfigError>(by_id_.emplace(token.id, &token).second,
                         "[SentencePieceTokenizer] two added tokens have the id ", token.id, ".");
    by_first_byte_[static_cast<uint8_t>(token.content.front())].push_back(&token);
  }
  for (auto& list : by_first_byte_) {
    std::sort(list.begin(), list.end(), [](const auto* a, const auto* b) {
      return a->content.size() != b->content.size() ? a->content.size() > b->content.size() : a->content < b->content;
    });
    const auto twice = std::adjacent_find(list.begin(), list.end(),
                                          [](const auto* a, const auto* b) { return a->content == b->content; });
    require<ConfigError>(twice == list.end(), "[SentencePieceTokenizer] an added token is given twice: \"",
                         twice == list.end() ? "" : (*twice)->content, "\".");
  }
}

const SentencePieceAddedToken* SentencePieceAddedTokens::find(int32_t id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : found->second;
}

const SentencePieceAddedToken* SentencePieceAddedTokens::find(std::string_view content) const {
  if (content.empty()) return nullptr;
  for (const auto* token : by_first_byte_[static_cast<uint8_t>(content.front())]) {
    if (token->content == content) return token;
  }
  return nullptr;
}

const SentencePieceAddedToken* SentencePieceAddedTokens::at(std::string_view text, std::size_t begin) const {
  for (const auto* token : by_first_byte_[static_cast<uint8_t>(text[begin])]) {
    if (!text.substr(begin).starts_with(token->content)) continue;
    const std::size_t end = begin + token->content.size();
    const bool alone = !(begin > 0 && is_word(text[begin - 1])) && !(end < text.size() && is_word(text[end]));
    if (!token->single_word || alone) return token;
  }
  return nullptr;
}

std::vector<SentencePieceAddedTokens::Stretch> SentencePieceAddedTokens::split(std::string_view text) const {
  if (tokens_.empty()) return {{0, text.size()}};
  std::vector<Stretch> stretches;
  std::size_t done = 0;
  for (std::size_t i = 0; i < text.size();) {
    const auto* token = at(text, i);
    if (!token) {
      ++i;
      continue;
    }
    std::size_t begin = i, end = i + token->content.size();
    if (token->lstrip) {
      while (const std::size_t size = blank_size(text.substr(done, begin - done), true)) begin -= size;
    }
    if (token->rstrip) {
      while (const std::size_t size = blank_size(text.substr(end), false)) end += size;
    }
    if (begin > done) stretches.push_back({done, begin});
    stretches.push_back({begin, end, token});
    i = done = end;
  }
  if (done < text.size()) stretches.push_back({done, text.size()});
  return stretches;
}

}  // namespace easydel

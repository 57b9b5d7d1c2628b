#include "easydel/tokenizers/vocabulary/added_tokens.h"

#include <algorithm>

#include "easydel/core/log.h"

namespace easydel {
namespace {

constexpr std::size_t kMaxTokenBytes = 1024;  // bytes of a token: bounds the search at each byte of the text

AddedToken read_token(const JsonField& field) {
  AddedToken token;
  token.content = field["content"].as_string();
  if (token.content.size() > kMaxTokenBytes) {
    field.refuse("has ", token.content.size(), " bytes; the limit is ", kMaxTokenBytes, ".");
  }
  token.single_word = field["single_word"].as_bool();
  token.lstrip = field["lstrip"].as_bool();
  token.rstrip = field["rstrip"].as_bool();
  token.normalized = field["normalized"].as_bool();
  token.special = field["special"].as_bool();
  return token;
}

bool ends_with_word(std::string_view text) {
  std::size_t at = text.size();
  return at > 0 && unicode::is_word(utf8::previous(text, at));
}

bool starts_with_word(std::string_view text) { return !text.empty() && unicode::is_word(utf8::first(text)); }

}  // namespace

AddedTokens::AddedTokens(const std::optional<JsonField>& field, const TokenModel& model, const Normalizer* normalizer) {
  if (!field) return;
  const std::size_t count = field->as_array().size();
  auto next_id = static_cast<int32_t>(model.vocab_size());
  std::unordered_set<std::string> special;
  for (std::size_t i = 0; i < count; ++i) {
    const JsonField entry = (*field)[i];
    AddedToken token = read_token(entry);
    entry["id"].as_int(0, INT32_MAX);
    if (token.content.empty()) continue;
    const auto known = ids_.find(token.content);
    int32_t id = known != ids_.end() ? known->second : model.token_to_id(token.content);
    if (id < 0) id = next_id++;
    if (entry["id"].json().as_int() != id && known == ids_.end()) {
      log::warning("[tokenizer.json] the added token ", Json(token.content).dump(), " claims the id ",
                   entry["id"].json().as_int(), "; it is ", id, ".");
    }
    if (token.normalized && normalizer) {
      AlignedText text(token.content, 0, normalizer->needs_alignment());
      normalizer->normalize(text);
      if (text.view() != token.content) normalized_[id] = std::string(text.view());
    }
    ids_[token.content] = id;
    if (token.special) special.insert(token.content);
    tokens_[id] = std::move(token);
  }

  std::vector<ByteTrie::Entry> keys[2];
  std::vector<int32_t> order;
  order.reserve(tokens_.size());
  for (const auto& [id, token] : tokens_) order.push_back(id);
  std::sort(order.begin(), order.end(), std::greater<>());  // of two with the same key the lower id counts
  for (const int32_t id : order) {
    const AddedToken& token = tokens_.at(id);
    const auto changed = normalized_.find(id);
    const std::string& text = changed == normalized_.end() ? token.content : changed->second;
    keys[token.normalized ? 1 : 0].emplace_back(token.normalized ? text : token.content, id);
    if (token.single_word) unicode::require_tables("added_tokens");
    if (special.contains(text)) special_ids_.insert(id);
  }
  for (const std::string& content : special) {
    const int32_t id = model.token_to_id(content);
    if (id >= 0 && !tokens_.contains(id)) special_ids_.insert(id);
  }
  tries_[0] = ByteTrie(std::move(keys[0]));
  tries_[1] = ByteTrie(std::move(keys[1]));
}

void AddedTokens::find(std::string_view text, bool normalized, std::vector<Match>& matches) const {
  const ByteTrie& trie = tries_[normalized ? 1 : 0];
  std::size_t done = 0;
  for (std::size_t at = 0; at < text.size() && !trie.empty();) {
    if (!trie.may_start_with(text[at])) {
      ++at;
      continue;
    }
    std::size_t length = 0;
    int32_t id = -1;
    trie.prefixes(text.substr(at), [&](std::size_t size, int32_t value) {
      length = size;
      id = value;
    });
    if (id < 0) {
      ++at;
      continue;
    }
    std::size_t begin = at;
    std::size_t end = at + length;
    at = end;
    const AddedToken& token = tokens_.at(id);
    if (token.single_word && (ends_with_word(text.substr(0, begin)) || starts_with_word(text.substr(end)))) continue;
    if (token.lstrip) {
      while (begin > done) {
        std::size_t before = begin;
        if (!unicode::is_whitespace(utf8::previous(text, before))) break;
        begin = before;
      }
      begin = std::max(begin, done);
    }
    if (token.rstrip) {
      end = std::max(end, done);  // only white space, already stripped by an earlier token
      while (end < text.size()) {
        std::size_t behind = end;
        if (!unicode::is_whitespace(utf8::next(text, behind))) break;
        end = behind;
      }
    }
    if (done < begin) matches.push_back({static_cast<uint32_t>(done), static_cast<uint32_t>(begin), -1});
    matches.push_back({static_cast<uint32_t>(begin), static_cast<uint32_t>(end), id});
    done = end;
  }
  if (done < text.size()) matches.push_back({static_cast<uint32_t>(done), static_cast<uint32_t>(text.size()), -1});
}

int32_t AddedTokens::token_to_id(std::string_view token) const {
  const auto found = ids_.find(std::string(token));
  return found == ids_.end() ? -1 : found->second;
}

const std::string* AddedTokens::text_of(int32_t id) const {
  if (const auto changed = normalized_.find(id); changed != normalized_.end()) return &changed->second;
  const auto found = tokens_.find(id);
  return found == tokens_.end() ? nullptr : &found->second.content;
}

std::size_t AddedTokens::count_beyond(const TokenModel& model) const {
  return static_cast<std::size_t>(
      std::count_if(ids_.begin(), ids_.end(), [&](const auto& entry) { return model.token_to_id(entry.first) < 0; }));
}

}  // namespace easydel

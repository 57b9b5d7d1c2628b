#include "easydel/tokenizers/vocabulary/vocabulary.h"

#include <bit>

namespace easydel {

Vocabulary::Vocabulary(const JsonField& field) {
  const Json::Object& entries = field.as_object();
  // Ids index a table: its size must stay proportional to the number of tokens.
  const int64_t most = (int64_t{1} << 20) + 16 * static_cast<int64_t>(entries.size());
  reserve(entries.size());
  for (const auto& [token, id] : entries) {
    if (!id.is_int() || id.as_int() < 0 || id.as_int() > most) {
      field.refuse("must map every token to an id between 0 and ", most, "; got ", id.dump(), " for ",
                   Json(token).dump(), ".");
    }
    add(token, static_cast<int32_t>(id.as_int()));
  }
}

void Vocabulary::reserve(std::size_t tokens) {
  entries_.reserve(tokens);
  by_id_.reserve(tokens);
  slots_.assign(std::bit_ceil(2 * tokens + 2), -1);
}

void Vocabulary::grow() {
  slots_.assign(std::bit_ceil(4 * entries_.size() + 16), -1);
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    std::size_t at = entries_[i].hash & (slots_.size() - 1);
    while (slots_[at] >= 0) at = (at + 1) & (slots_.size() - 1);
    slots_[at] = static_cast<int32_t>(i);
  }
}

void Vocabulary::add(std::string_view token, int32_t id) {
  if (2 * entries_.size() + 2 > slots_.size()) grow();
  const uint64_t hash = hash_bytes(token);
  std::size_t at = hash & (slots_.size() - 1);
  while (slots_[at] >= 0) {
    const Entry& entry = entries_[static_cast<std::size_t>(slots_[at])];
    if (entry.hash == hash && text(entry) == token) break;
    at = (at + 1) & (slots_.size() - 1);
  }
  if (slots_[at] < 0) {
    slots_[at] = static_cast<int32_t>(entries_.size());
    entries_.push_back({hash, static_cast<uint32_t>(arena_.size()), static_cast<uint32_t>(token.size()), id});
    arena_ += token;
    longest_ = std::max(longest_, token.size());
  }
  entries_[static_cast<std::size_t>(slots_[at])].id = id;
  const auto index = static_cast<std::size_t>(id);
  if (by_id_.size() <= index) by_id_.resize(index + 1, -1);
  by_id_[index] = slots_[at];
}

int32_t Vocabulary::find(std::string_view token) const {
  if (slots_.empty() || token.size() > longest_) return -1;
  const uint64_t hash = hash_bytes(token);
  for (std::size_t at = hash & (slots_.size() - 1); slots_[at] >= 0; at = (at + 1) & (slots_.size() - 1)) {
    const Entry& entry = entries_[static_cast<std::size_t>(slots_[at])];
    if (entry.hash == hash && text(entry) == token) return entry.id;
  }
  return -1;
}

std::optional<std::string_view> Vocabulary::token(int32_t id) const {
  if (id < 0 || static_cast<std::size_t>(id) >= by_id_.size() || by_id_[static_cast<std::size_t>(id)] < 0) {
    return std::nullopt;
  }
  return text(entries_[static_cast<std::size_t>(by_id_[static_cast<std::size_t>(id)])]);
}

}  // namespace easydel

#include "easydel/serve/openai/responses/response_store.h"

namespace easydel::serve {

void ResponseStore::put(const std::string& id, StoredResponse response) {
  // As text: what a value takes in memory is a small multiple of it.
  const std::size_t bytes = response.response.dump().size() + response.messages.dump().size();
  const std::lock_guard lock(mutex_);
  if (const auto known = by_id_.find(id); known != by_id_.end()) remove(known->second);
  entries_.push_front({.id = id, .response = std::move(response), .bytes = bytes});
  by_id_[id] = entries_.begin();
  bytes_ += bytes;
  while (!entries_.empty() && (entries_.size() > most_ || bytes_ > most_bytes_)) remove(std::prev(entries_.end()));
}

std::optional<StoredResponse> ResponseStore::get(const std::string& id) {
  const std::lock_guard lock(mutex_);
  const auto known = by_id_.find(id);
  if (known == by_id_.end()) return std::nullopt;
  entries_.splice(entries_.begin(), entries_, known->second);
  return known->second->response;
}

bool ResponseStore::erase(const std::string& id) {
  const std::lock_guard lock(mutex_);
  const auto known = by_id_.find(id);
  if (known == by_id_.end()) return false;
  remove(known->second);
  return true;
}

std::size_t ResponseStore::size() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

std::size_t ResponseStore::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

void ResponseStore::remove(Entries::iterator entry) {
  bytes_ -= entry->bytes;
  by_id_.erase(entry->id);
  entries_.erase(entry);
}

}  // namespace easydel::serve

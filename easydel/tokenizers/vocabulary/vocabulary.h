// Tokens and their ids, looked up both ways.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "easydel/tokenizers/files/json_field.h"

namespace easydel {

// A hash for in-memory tables; it may change between releases.
inline uint64_t hash_bytes(std::string_view bytes) {
  const auto mix = [](uint64_t a, uint64_t b) {
    const auto product = static_cast<unsigned __int128>(a) * b;
    return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
  };
  uint64_t state = 0x9E3779B97F4A7C15u ^ bytes.size();
  while (bytes.size() > 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data(), 8);
    state = mix(state ^ word, 0xA0761D6478BD642Fu);
    bytes.remove_prefix(8);
  }
  uint64_t word = 0;
  std::memcpy(&word, bytes.data(), bytes.size());
  return mix(state ^ word, 0xE7037ED1A0B428DBu);
}

class Vocabulary {
 public:
  Vocabulary() = default;
  explicit Vocabulary(const JsonField& field);  // {"token": id, …}

  void reserve(std::size_t tokens);
  void add(std::string_view token, int32_t id);  // an existing token gets the new id

  int32_t find(std::string_view token) const;  // -1: absent
  std::optional<std::string_view> token(int32_t id) const;
  // Calls `seen(token, id)` for each, in the order of adding.
  template <class Seen>
  void for_each(const Seen& seen) const {
    for (const Entry& entry : entries_) seen(text(entry), entry.id);
  }
  std::size_t size() const { return entries_.size(); }
  std::size_t longest() const { return longest_; }  // in bytes

 private:
  struct Entry {
    uint64_t hash;
    uint32_t begin, size;
    int32_t id;
  };
  std::string_view text(const Entry& entry) const { return std::string_view(arena_).substr(entry.begin, entry.size); }
  void grow();

  std::string arena_;
  std::vector<Entry> entries_;
  std::vector<int32_t> slots_;  // positions in entries_, -1 where free
  std::vector<int32_t> by_id_;  // the same
  std::size_t longest_ = 0;
};

}  // namespace easydel

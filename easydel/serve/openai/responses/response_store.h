// The last responses of a server, in memory, for GET and previous_response_id.
#pragma once

#include <cstdint>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "easydel/core/json/json.h"

namespace easydel::serve {

struct StoredResponse {
  Json response;  // as it was answered
  Json messages;  // the conversation up to its end, as templates take it, without the instructions
};

// Thread-safe. When it is full, the one that was not used for longest goes.
class ResponseStore {
 public:
  ResponseStore(std::size_t max_responses, std::size_t max_bytes) : most_(max_responses), most_bytes_(max_bytes) {}

  void put(const std::string& id, StoredResponse response);
  std::optional<StoredResponse> get(const std::string& id);
  bool erase(const std::string& id);
  std::size_t size() const;
  std::size_t bytes() const;

 private:
  struct Entry {
    std::string id;
    StoredResponse response;
    std::size_t bytes = 0;
  };
  using Entries = std::list<Entry>;  // the one used last comes first

  void remove(Entries::iterator entry);

  mutable std::mutex mutex_;
  std::size_t most_, most_bytes_;
  std::size_t bytes_ = 0;
  Entries entries_;
  std::unordered_map<std::string, Entries::iterator> by_id_;
};

}  // namespace easydel::serve

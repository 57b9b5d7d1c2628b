// The pages of a cache: who uses them, which are free, and which hold a prefix that another request can use again.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

namespace easydel::serve {

// Names the tokens of a full page and all before it. Keyed by a secret of the process: nobody can make two prompts
// collide.
struct PageHash {
  uint64_t high = 0, low = 0;
  friend bool operator==(const PageHash&, const PageHash&) = default;
};
// The hash of a page that follows `parent`. `extra` names what else the keys depend on, as an adapter.
PageHash hash_page(const PageHash& parent, std::span<const int32_t> tokens, uint64_t extra);

// A page is used by so many sequences, or free. A free page keeps its content until it is allocated again, the one
// that has been free for longest first, so that a prefix is found for as long as there is room.
class BlockPool {
 public:
  BlockPool(int64_t pages, bool keeps_prefixes);

  int64_t pages() const { return static_cast<int64_t>(pages_.size()); }
  int64_t free_pages() const { return free_; }

  // None when there are not that many.
  std::optional<std::vector<int32_t>> allocate(int64_t count);
  // One user less of each; the first of the list stays findable for longest.
  void release(std::span<const int32_t> pages);

  // The pages of the longest known prefix of `hashes`; the caller uses them from now on.
  std::vector<int32_t> take_prefix(std::span<const PageHash> hashes);
  // How many pages take_prefix would find, and how many of these are free now.
  struct Match {
    int64_t pages = 0, free = 0;
  };
  Match match_prefix(std::span<const PageHash> hashes) const;
  // The content of a page that is in use is complete, and has this hash.
  void publish(int32_t page, const PageHash& hash);
  // Forgets all prefixes: the weights have changed.
  void forget();

  // Asserts that every page is either used or in the free list once, and that the map and the pages agree. For tests.
  bool is_consistent() const;
  int64_t users(int32_t page) const { return pages_[static_cast<std::size_t>(page)].users; }

 private:
  struct Page {
    int32_t users = 0;
    int32_t before = -1, after = -1;  // in the free list
    bool is_published = false;
    PageHash hash;
  };
  struct Hasher {
    std::size_t operator()(const PageHash& hash) const { return hash.low; }
  };
  Page& at(int32_t page) { return pages_[static_cast<std::size_t>(page)]; }
  void append_free(int32_t page);  // the last to be allocated
  void unlink_free(int32_t page);
  void unpublish(int32_t page);

  bool keeps_prefixes_;
  std::vector<Page> pages_;
  int32_t first_free_ = -1, last_free_ = -1;
  int64_t free_ = 0;
  std::unordered_map<PageHash, int32_t, Hasher> known_;
};

}  // namespace easydel::serve

#include "easydel/serve/engine/block_pool.h"

#include <algorithm>
#include <cassert>
#include <random>

namespace easydel::serve {
namespace {

// The high half of a 128-bit product folded onto the low one: all bits of both factors reach all bits of the result.
uint64_t mix(uint64_t a, uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

struct Secret {
  uint64_t a, b, c, d;
};

const Secret& page_hash_secret() {
  static const Secret secret = [] {
    std::random_device device;
    const auto draw = [&] { return (static_cast<uint64_t>(device()) << 32 | device()) | 1; };
    return Secret{draw(), draw(), draw(), draw()};
  }();
  return secret;
}

}  // namespace

PageHash hash_page(const PageHash& parent, std::span<const int32_t> tokens, uint64_t extra) {
  const Secret& secret = page_hash_secret();
  PageHash hash{mix(parent.high ^ secret.a, extra ^ secret.b), mix(parent.low ^ secret.c, extra ^ secret.d)};
  for (const int32_t token : tokens) {
    const auto bits = static_cast<uint64_t>(static_cast<uint32_t>(token)) + 1;
    hash.high = mix(hash.high ^ bits, secret.a);
    hash.low = mix(hash.low ^ (bits << 32), secret.c);
  }
  return {mix(hash.high ^ secret.b, hash.low ^ secret.d) ^ hash.high, mix(hash.low ^ secret.a, secret.b) ^ hash.low};
}

BlockPool::BlockPool(int64_t pages, bool keeps_prefixes) : keeps_prefixes_(keeps_prefixes) {
  pages_.resize(static_cast<std::size_t>(pages));
  for (int32_t page = 0; page < pages; ++page) append_free(page);
}

void BlockPool::append_free(int32_t page) {
  Page& added = at(page);
  added.before = last_free_;
  added.after = -1;
  (last_free_ >= 0 ? at(last_free_).after : first_free_) = page;
  last_free_ = page;
  ++free_;
}

void BlockPool::unlink_free(int32_t page) {
  Page& gone = at(page);
  (gone.before >= 0 ? at(gone.before).after : first_free_) = gone.after;
  (gone.after >= 0 ? at(gone.after).before : last_free_) = gone.before;
  gone.before = gone.after = -1;
  --free_;
}

void BlockPool::unpublish(int32_t page) {
  Page& entry = at(page);
  if (!entry.is_published) return;
  known_.erase(entry.hash);
  entry.is_published = false;
}

std::optional<std::vector<int32_t>> BlockPool::allocate(int64_t count) {
  if (count > free_) return std::nullopt;
  std::vector<int32_t> taken;
  taken.reserve(static_cast<std::size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    const int32_t page = first_free_;
    unlink_free(page);
    unpublish(page);
    at(page).users = 1;
    taken.push_back(page);
  }
  return taken;
}

void BlockPool::release(std::span<const int32_t> pages) {
  // The end of a sequence is the first to go: a prefix is of use without what follows it, not the other way round.
  for (std::size_t i = pages.size(); i-- > 0;) {
    assert(at(pages[i]).users > 0);
    if (--at(pages[i]).users == 0) append_free(pages[i]);
  }
}

BlockPool::Match BlockPool::match_prefix(std::span<const PageHash> hashes) const {
  Match match;
  if (!keeps_prefixes_) return match;
  for (const PageHash& hash : hashes) {
    const auto found = known_.find(hash);
    if (found == known_.end()) break;
    ++match.pages;
    if (users(found->second) == 0) ++match.free;
  }
  return match;
}

std::vector<int32_t> BlockPool::take_prefix(std::span<const PageHash> hashes) {
  std::vector<int32_t> taken;
  if (!keeps_prefixes_) return taken;
  for (const PageHash& hash : hashes) {
    const auto found = known_.find(hash);
    if (found == known_.end()) break;
    Page& page = at(found->second);
    if (page.users++ == 0) unlink_free(found->second);
    taken.push_back(found->second);
  }
  return taken;
}

void BlockPool::publish(int32_t page, const PageHash& hash) {
  if (!keeps_prefixes_) return;
  Page& entry = at(page);
  assert(entry.users > 0);
  if (entry.is_published) return;
  if (!known_.try_emplace(hash, page).second) return;  // another page has the same content already
  entry.hash = hash;
  entry.is_published = true;
}

void BlockPool::forget() {
  for (Page& page : pages_) page.is_published = false;
  known_.clear();
}

bool BlockPool::is_consistent() const {
  int64_t listed = 0;
  int32_t before = -1;
  for (int32_t page = first_free_; page >= 0; page = pages_[static_cast<std::size_t>(page)].after) {
    const Page& entry = pages_[static_cast<std::size_t>(page)];
    if (entry.users != 0 || entry.before != before || ++listed > pages()) return false;
    before = page;
  }
  if (before != last_free_ || listed != free_) return false;
  const auto used = std::count_if(pages_.begin(), pages_.end(), [](const Page& page) { return page.users > 0; });
  const auto published =
      std::count_if(pages_.begin(), pages_.end(), [](const Page& page) { return page.is_published; });
  if (used + listed != pages() || published != static_cast<int64_t>(known_.size())) return false;
  return std::all_of(known_.begin(), known_.end(), [&](const auto& entry) {
    const Page& page = pages_[static_cast<std::size_t>(entry.second)];
    return page.is_published && page.hash == entry.first;
  });
}

}  // namespace easydel::serve

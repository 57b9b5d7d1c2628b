#include "easydel/tokenizers/vocabulary/byte_trie.h"

#include <algorithm>
#include <numeric>

namespace easydel {

ByteTrie::ByteTrie(std::vector<Entry> entries) {
  std::erase_if(entries, [](const Entry& entry) { return entry.first.empty(); });
  if (entries.empty()) return;
  // Equal keys stay in their order: a later one overwrites the value.
  std::vector<std::size_t> order(entries.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return entries[a].first != entries[b].first ? entries[a].first < entries[b].first : a < b;
  });
  std::vector<Entry> sorted;
  sorted.reserve(entries.size());
  for (const std::size_t i : order) sorted.push_back(entries[i]);
  entries = std::move(sorted);
  struct Job {
    uint32_t node;
    std::size_t begin, end, depth;  // these entries agree in the first `depth` bytes
  };
  nodes_.push_back({});
  labels_.push_back('\0');
  std::vector<Job> jobs{{0, 0, entries.size(), 0}};
  for (std::size_t done = 0; done < jobs.size(); ++done) {
    Job job = jobs[done];
    while (job.begin < job.end && entries[job.begin].first.size() == job.depth) {
      nodes_[job.node].value = entries[job.begin++].second;
    }
    nodes_[job.node].first_child = static_cast<uint32_t>(nodes_.size());
    while (job.begin < job.end) {
      const char label = entries[job.begin].first[job.depth];
      std::size_t end = job.begin;
      while (end < job.end && entries[end].first[job.depth] == label) ++end;
      const auto child = static_cast<uint32_t>(nodes_.size());
      jobs.push_back({child, job.begin, end, job.depth + 1});
      nodes_.push_back({});
      labels_.push_back(label);
      ++nodes_[job.node].children;
      if (job.node == 0) root_[static_cast<unsigned char>(label)] = child;
      job.begin = end;
    }
  }
}

}  // namespace easydel

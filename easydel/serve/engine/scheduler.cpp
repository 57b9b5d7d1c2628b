#include "easydel/serve/engine/scheduler.h"

#include <algorithm>
#include <cassert>

#include "easydel/core/error.h"

namespace easydel::serve {

Scheduler::Scheduler(const SchedulerOptions& options)
    : options_(options), pool_(options.num_pages, options.enable_prefix_caching) {
  require<ConfigError>(options.max_num_seqs > 0, "[engine] max_num_seqs must be positive; got ", options.max_num_seqs,
                       ".");
  require<ConfigError>(options.max_num_batched_tokens > 0, "[engine] max_num_batched_tokens must be positive; got ",
                       options.max_num_batched_tokens, ".");
  require<ConfigError>(options.page_size > 0 && options.num_pages > 0,
                       "[engine] page_size and num_pages must be positive; got ", options.page_size, " and ",
                       options.num_pages, ".");
}

void Scheduler::insert(Queue& queue, std::unique_ptr<Sequence> sequence) {
  const auto goes_before = [&](const std::unique_ptr<Sequence>& other) {
    return std::pair(sequence->priority, sequence->arrival) < std::pair(other->priority, other->arrival);
  };
  auto at = queue.end();  // most come last
  while (at != queue.begin() && goes_before(*std::prev(at))) --at;
  queue.insert(at, std::move(sequence));
}

void Scheduler::add(std::unique_ptr<Sequence> sequence) {
  assert(sequence->computed == 0 && sequence->pages.empty() && !sequence->tokens.empty());
  insert(waiting_, std::move(sequence));
}

bool Scheduler::grow(Sequence& sequence, int64_t tokens) {
  const int64_t missing = pages_for(tokens) - static_cast<int64_t>(sequence.pages.size());
  if (missing <= 0) return true;
  const auto added = pool_.allocate(missing);
  if (!added) return false;
  sequence.pages.insert(sequence.pages.end(), added->begin(), added->end());
  return true;
}

void Scheduler::preempt_last() {
  std::unique_ptr<Sequence> last = std::move(running_.back());
  running_.pop_back();
  pool_.release(last->pages);
  last->pages.clear();
  last->drafts.clear();
  last->computed = last->published_ = 0;
  last->is_running_ = false;
  ++last->preemptions;
  ++preemptions_;
  insert(waiting_, std::move(last));
}

void Scheduler::add_part(StepPlan& plan, Sequence& sequence, int64_t count, int64_t& budget) {
  const int64_t end = sequence.computed + count, length = sequence.expected_length();
  plan.parts.push_back({&sequence, sequence.computed, count, std::max<int64_t>(0, end - length), end >= length});
  plan.tokens += count;
  budget -= count;
}

int64_t Scheduler::fitting(const Sequence& sequence, int64_t computed, int64_t count) {
  if (!sequence.whole_images) return count;
  int64_t end = computed + count;
  for (auto image = sequence.images.rbegin(); image != sequence.images.rend(); ++image) {
    // Images without a token between them are one.
    const bool goes_on = image != sequence.images.rbegin() && std::prev(image)->begin == image->end;
    if (image->begin < end && (end < image->end || (end == image->end && goes_on))) end = image->begin;
  }
  return std::max<int64_t>(end - computed, 0);
}

bool Scheduler::plan_running(Queue::iterator at, StepPlan& plan, int64_t& budget) {
  Sequence& sequence = **at;
  // Whatever the awaited token is, it is the last one.
  if (sequence.awaited > 0 && sequence.expected_length() >= sequence.max_length) return true;
  const int64_t known = sequence.expected_length() - sequence.computed;
  // Without chunks a prompt waits for a step that holds all of it, or that it has for itself.
  if (known > budget && !options_.enable_chunked_prefill && plan.tokens > 0) return true;
  // Guesses are dropped where they do not fit: they must not push anybody out.
  int64_t drafts = std::clamp<int64_t>(budget - known, 0, static_cast<int64_t>(sequence.drafts.size()));
  if (drafts > 0 && !grow(sequence, sequence.length() + drafts)) drafts = 0;
  sequence.drafts.resize(static_cast<std::size_t>(drafts));
  const int64_t count = fitting(sequence, sequence.computed, std::min(known + drafts, budget));
  if (count == 0) return true;
  while (!grow(sequence, sequence.computed + count)) {
    const bool is_last = running_.back().get() == &sequence;
    preempt_last();
    if (is_last) return false;
  }
  add_part(plan, sequence, count, budget);
  return true;
}

void Scheduler::hash_pages(Sequence& sequence) const {
  const int64_t size = options_.page_size, full = sequence.length() / size;
  for (auto page = static_cast<int64_t>(sequence.hashes_.size()); page < full; ++page) {
    const PageHash parent = page > 0 ? sequence.hashes_.back() : PageHash{};
    const std::span<const int32_t> tokens(sequence.tokens.data() + page * size, static_cast<std::size_t>(size));
    PageHash hash = hash_page(parent, tokens, sequence.prefix_key);
    for (const ImageSpan& image : sequence.images) {
      if (image.begin >= (page + 1) * size || image.end <= page * size) continue;
      hash = hash_page(hash_page(hash, {}, image.content.high), {}, image.content.low);
    }
    sequence.hashes_.push_back(hash);
  }
}

bool Scheduler::plan_waiting(StepPlan& plan, int64_t& budget) {
  Sequence& sequence = *waiting_.front();
  std::span<const PageHash> prefix;
  if (options_.enable_prefix_caching && sequence.uses_prefixes) {
    hash_pages(sequence);
    // The last token is always computed: it gives the scores of the next one.
    const int64_t usable = (sequence.length() - 1) / options_.page_size;
    prefix = std::span(sequence.hashes_).first(static_cast<std::size_t>(usable));
  }
  const BlockPool::Match match = pool_.match_prefix(prefix);
  const int64_t missing = sequence.length() - match.pages * options_.page_size;
  const int64_t count = fitting(sequence, sequence.length() - missing, std::min(missing, budget));
  if (count == 0) return false;
  if (count < missing && !options_.enable_chunked_prefill && plan.tokens > 0) return false;
  const int64_t needed = pages_for(match.pages * options_.page_size + count) - match.pages;
  if (needed + match.free > pool_.free_pages()) return false;
  sequence.pages = pool_.take_prefix(prefix.first(static_cast<std::size_t>(match.pages)));
  sequence.computed = match.pages * options_.page_size;
  sequence.published_ = match.pages;
  if (sequence.preemptions == 0) {
    sequence.cached_tokens = sequence.computed;
    prefix_queries_ += sequence.length();
    prefix_hits_ += sequence.computed;
  }
  [[maybe_unused]] const bool grown = grow(sequence, sequence.computed + count);
  assert(grown);
  sequence.is_running_ = true;
  add_part(plan, sequence, count, budget);
  std::unique_ptr<Sequence> started = std::move(waiting_.front());
  waiting_.pop_front();
  insert(running_, std::move(started));
  return true;
}

StepPlan Scheduler::schedule() {
  StepPlan plan;
  int64_t budget = options_.max_num_batched_tokens;
  const int64_t before = preemptions_;
  for (auto at = running_.begin(); at != running_.end() && budget > 0;) {
    const auto current = at++;
    // Whoever is preempted comes after the current one, which may be the next.
    const bool was_last = at == running_.end();
    if (!plan_running(current, plan, budget)) break;
    if (!was_last && preemptions_ > before) at = std::next(current);
  }
  if (preemptions_ > before) return plan;
  while (budget > 0 && !waiting_.empty() && running() < options_.max_num_seqs) {
    if (!plan_waiting(plan, budget)) break;
  }
  return plan;
}

void Scheduler::start(StepPart& part, bool chooses) {
  assert(part.drafts == 0 && !part.is_started && part.sequence->awaited == 0);
  part.is_started = true;
  part.sequence->computed = part.begin + part.count;
  part.sequence->awaited = chooses ? 1 : 0;
}

void Scheduler::advance(const StepPart& part, const std::vector<int32_t>& chosen) {
  Sequence& sequence = *part.sequence;
  // Of the drafts only those that were chosen count; the keys of the others are written over.
  const int64_t known = part.count - part.drafts;
  const int64_t accepted = chosen.empty() ? 0 : static_cast<int64_t>(chosen.size()) - 1;
  assert(accepted <= part.drafts && (chosen.empty() || part.reaches_end));
  if (!part.is_started) {
    sequence.computed = part.begin + known + accepted;
  } else if (!chosen.empty()) {
    --sequence.awaited;
  }
  sequence.tokens.insert(sequence.tokens.end(), chosen.begin(), chosen.end());
  sequence.drafts.clear();
  if (!options_.enable_prefix_caching) return;
  hash_pages(sequence);
  const int64_t complete = std::min(sequence.computed, sequence.length());
  for (; (sequence.published_ + 1) * options_.page_size <= complete; ++sequence.published_) {
    const auto page = static_cast<std::size_t>(sequence.published_);
    pool_.publish(sequence.pages[page], sequence.hashes_[page]);
  }
}

std::unique_ptr<Sequence> Scheduler::remove(RequestId id) {
  for (Queue* queue : {&running_, &waiting_}) {
    const auto found = std::find_if(queue->begin(), queue->end(), [&](const auto& entry) { return entry->id == id; });
    if (found == queue->end()) continue;
    std::unique_ptr<Sequence> removed = std::move(*found);
    queue->erase(found);
    pool_.release(removed->pages);
    removed->pages.clear();
    return removed;
  }
  return nullptr;
}

bool Scheduler::is_consistent() const {
  if (!pool_.is_consistent()) return false;
  std::vector<int64_t> users(static_cast<std::size_t>(pool_.pages()));
  for (const auto& sequence : running_) {
    if (static_cast<int64_t>(sequence->pages.size()) < pages_for(sequence->computed)) return false;
    for (const int32_t page : sequence->pages) ++users[static_cast<std::size_t>(page)];
  }
  const bool idle = std::all_of(waiting_.begin(), waiting_.end(), [](const auto& sequence) {
    return sequence->pages.empty() && sequence->computed == 0;
  });
  if (!idle) return false;
  for (int32_t page = 0; page < pool_.pages(); ++page) {
    if (pool_.users(page) != users[static_cast<std::size_t>(page)]) return false;
  }
  return true;
}

}  // namespace easydel::serve

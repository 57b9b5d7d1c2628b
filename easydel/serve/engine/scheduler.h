// Decides what each step computes: which sequences, how many tokens of each, on which pages. No torch; deterministic.
#pragma once

#include <cstdint>
#include <limits>
#include <list>
#include <memory>
#include <vector>

#include "easydel/serve/engine/block_pool.h"
#include "easydel/serve/engine/request.h"

namespace easydel::serve {

struct SchedulerOptions {
  int64_t max_num_seqs = 256;
  int64_t max_num_batched_tokens = 8192;
  int64_t page_size = 16;
  int64_t num_pages = 0;
  bool enable_prefix_caching = true;
  bool enable_chunked_prefill = true;
};

// Where the tokens of an image lie, and a name of what it shows: they are the same for all images.
struct ImageSpan {
  int64_t begin = 0, end = 0;
  PageHash content;
};

// What the scheduler knows of a request. There are no phases: `computed` catches up with the tokens and the drafts.
struct Sequence {
  RequestId id = 0;
  std::vector<int32_t> tokens;  // the prompt and what was chosen since
  int64_t prompt_tokens = 0;
  std::vector<int32_t> drafts;  // guesses of what follows, to be verified by the next step
  int64_t awaited = 0;          // tokens that a started step chooses, and nobody knows yet: at most one
  int64_t computed = 0;         // tokens whose keys are in the cache, or will be once the started steps are done
  std::vector<int32_t> pages;
  int64_t max_length = std::numeric_limits<int64_t>::max();  // it ends there; read where a token is awaited
  int64_t priority = 0;
  uint64_t arrival = 0;     // among equal priorities the first goes first
  uint64_t prefix_key = 0;  // names what else the keys depend on: prefixes are shared among equal ones
  std::vector<ImageSpan> images = {};
  bool whole_images = false;  // the tokens of an image see each other: no step ends among them
  bool uses_prefixes = true;  // false: all tokens must be computed, for prompt log-probabilities
  int64_t cached_tokens = 0;  // found in the prefix cache when it first ran
  int64_t preemptions = 0;

  int64_t length() const { return static_cast<int64_t>(tokens.size()); }
  int64_t expected_length() const { return length() + awaited; }

 private:
  friend class Scheduler;
  std::vector<PageHash> hashes_;  // of its full pages
  int64_t published_ = 0;
  bool is_running_ = false;
};

// Tokens [begin, begin + count) of a sequence, the last `drafts` of which are guesses.
struct StepPart {
  Sequence* sequence = nullptr;
  int64_t begin = 0, count = 0, drafts = 0;
  bool reaches_end = false;  // a next token is chosen
  bool is_started = false;   // see Scheduler::start
};

struct StepPlan {
  std::vector<StepPart> parts;
  int64_t tokens = 0;
  bool empty() const { return parts.empty(); }
};

class Scheduler {
 public:
  explicit Scheduler(const SchedulerOptions& options);

  void add(std::unique_ptr<Sequence> sequence);
  // The next step: running sequences first, then waiting ones with what is left of the budget. If there are no pages
  // for a running one, the last of them loses its pages and waits again.
  StepPlan schedule();
  // The part is being computed, and its next token, if it `chooses` one, will be known to `advance` later: the step
  // after it can be planned now. Not for parts with drafts.
  static void start(StepPart& part, bool chooses);
  // Of a part that was computed: the accepted drafts and the token after them. Its complete pages can be found now.
  void advance(const StepPart& part, const std::vector<int32_t>& chosen);
  // The sequence, running or waiting, has ended: its pages are free. Null when it is not known.
  std::unique_ptr<Sequence> remove(RequestId id);

  bool has_work() const { return !running_.empty() || !waiting_.empty(); }
  int64_t running() const { return static_cast<int64_t>(running_.size()); }
  int64_t waiting() const { return static_cast<int64_t>(waiting_.size()); }
  int64_t preemptions() const { return preemptions_; }
  int64_t prefix_queries() const { return prefix_queries_; }
  int64_t prefix_hits() const { return prefix_hits_; }
  const BlockPool& pool() const { return pool_; }
  void forget_prefixes() { pool_.forget(); }
  const SchedulerOptions& options() const { return options_; }
  // Tokens of the longest sequence that can run when it is alone.
  int64_t max_length() const { return options_.num_pages * options_.page_size; }

  // Every page belongs to the sequences that list it and no page is lost. For tests.
  bool is_consistent() const;
  // Of the first `most`.
  template <class Function>
  void for_each(const Function& function, std::size_t most = std::numeric_limits<std::size_t>::max()) const {
    for (const Queue* queue : {&running_, &waiting_}) {
      for (const auto& sequence : *queue) {
        if (most-- == 0) return;
        function(*sequence, queue == &running_);
      }
    }
  }

 private:
  using Queue = std::list<std::unique_ptr<Sequence>>;  // by priority, then by arrival
  static void insert(Queue& queue, std::unique_ptr<Sequence> sequence);
  int64_t pages_for(int64_t tokens) const { return (tokens + options_.page_size - 1) / options_.page_size; }
  bool grow(Sequence& sequence, int64_t tokens);  // pages for so many tokens; false when there are not enough
  void preempt_last();
  // Plans a running sequence; false when it was preempted itself.
  bool plan_running(Queue::iterator at, StepPlan& plan, int64_t& budget);
  bool plan_waiting(StepPlan& plan, int64_t& budget);  // the first one; false when it must wait on
  void hash_pages(Sequence& sequence) const;
  // As many of the next tokens, up to `count`, as leave no image in two steps where it must be whole.
  static int64_t fitting(const Sequence& sequence, int64_t computed, int64_t count);
  static void add_part(StepPlan& plan, Sequence& sequence, int64_t count, int64_t& budget);

  SchedulerOptions options_;
  BlockPool pool_;
  Queue running_, waiting_;
  int64_t preemptions_ = 0, prefix_queries_ = 0, prefix_hits_ = 0;
};

}  // namespace easydel::serve

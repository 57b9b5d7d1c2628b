// The scheduler and its pages under random requests: no page is leaked, owned twice or lost, and everybody gets ahead.
#include "easydel/serve/engine/scheduler.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "tests/support/draw.h"

namespace easydel::serve {
namespace {

using testing_support::Draw;

std::unique_ptr<Sequence> sequence_of(RequestId id, std::vector<int32_t> tokens, int64_t priority = 0) {
  auto sequence = std::make_unique<Sequence>();
  sequence->id = id;
  sequence->prompt_tokens = static_cast<int64_t>(tokens.size());
  sequence->tokens = std::move(tokens);
  sequence->priority = priority;
  sequence->arrival = id;
  return sequence;
}

std::vector<int32_t> counted(int64_t count, int32_t first = 0) {
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < count; ++i) tokens.push_back(first + i);
  return tokens;
}

SchedulerOptions small_options() {
  return {.max_num_seqs = 4, .max_num_batched_tokens = 8, .page_size = 4, .num_pages = 8};
}

TEST(Scheduler, PromptsAreChunkedToTheBudgetBesideNextTokens) {
  Scheduler scheduler(small_options());
  scheduler.add(sequence_of(1, counted(3)));
  scheduler.add(sequence_of(2, counted(11, 100)));
  StepPlan plan = scheduler.schedule();
  ASSERT_EQ(plan.parts.size(), 2U);
  EXPECT_EQ(plan.parts[0].count, 3);
  EXPECT_TRUE(plan.parts[0].reaches_end);
  EXPECT_EQ(plan.parts[1].count, 5);
  EXPECT_FALSE(plan.parts[1].reaches_end);
  scheduler.advance(plan.parts[0], {7});
  scheduler.advance(plan.parts[1], {});
  plan = scheduler.schedule();
  ASSERT_EQ(plan.parts.size(), 2U);
  EXPECT_EQ(plan.parts[0].begin, 3);
  EXPECT_EQ(plan.parts[0].count, 1);
  EXPECT_EQ(plan.parts[1].begin, 5);
  EXPECT_EQ(plan.parts[1].count, 6);
  EXPECT_TRUE(plan.parts[1].reaches_end);
}

TEST(Scheduler, APrefixIsUsedAgainUpToTheLastToken) {
  Scheduler scheduler(small_options());
  scheduler.add(sequence_of(1, counted(8)));
  StepPlan plan = scheduler.schedule();
  scheduler.advance(plan.parts[0], {50});
  scheduler.remove(1);
  EXPECT_EQ(scheduler.pool().free_pages(), 8);
  scheduler.add(sequence_of(2, counted(8)));  // the second page holds the last token: it is computed
  plan = scheduler.schedule();
  EXPECT_EQ(plan.parts[0].begin, 4);
  EXPECT_EQ(plan.parts[0].sequence->cached_tokens, 4);
  auto other = sequence_of(3, counted(8));
  other->prefix_key = 9;  // another adapter
  scheduler.add(std::move(other));
  plan = scheduler.schedule();
  EXPECT_EQ(plan.parts.back().begin, 0);
  EXPECT_EQ(scheduler.prefix_hits(), 4);
}

TEST(Scheduler, WithoutPagesTheLastOneWaitsAgainAndComesBackFirst) {
  SchedulerOptions options = small_options();
  options.num_pages = 4;
  options.enable_prefix_caching = false;
  Scheduler scheduler(options);
  scheduler.add(sequence_of(1, counted(4)));
  scheduler.add(sequence_of(2, counted(4)));
  for (int step = 0; step < 8; ++step) {
    const StepPlan plan = scheduler.schedule();
    ASSERT_TRUE(scheduler.is_consistent());
    for (const StepPart& part : plan.parts)
      scheduler.advance(part, part.reaches_end ? std::vector<int32_t>{step} : std::vector<int32_t>{});
  }
  EXPECT_EQ(scheduler.preemptions(), 1);
  EXPECT_EQ(scheduler.running(), 1);
  scheduler.add(sequence_of(3, counted(2)));
  scheduler.remove(1);
  EXPECT_EQ(scheduler.schedule().parts.front().sequence->id, 2U);
}

TEST(Scheduler, ALowerPriorityNumberGoesFirst) {
  SchedulerOptions options = small_options();
  options.max_num_seqs = 1;
  Scheduler scheduler(options);
  scheduler.add(sequence_of(1, counted(2), 5));
  scheduler.add(sequence_of(2, counted(2), 5));
  scheduler.add(sequence_of(3, counted(2), -1));
  EXPECT_EQ(scheduler.schedule().parts.front().sequence->id, 3U);
}

TEST(Scheduler, RejectedDraftsAreComputedAnew) {
  Scheduler scheduler(small_options());
  scheduler.add(sequence_of(1, counted(3)));
  StepPlan plan = scheduler.schedule();
  Sequence& sequence = *plan.parts[0].sequence;
  scheduler.advance(plan.parts[0], {10});
  sequence.drafts = {11, 12, 13};
  plan = scheduler.schedule();
  EXPECT_EQ(plan.parts[0].count, 4);
  EXPECT_EQ(plan.parts[0].drafts, 3);
  scheduler.advance(plan.parts[0], {11, 99});  // the first is right, the second is not
  EXPECT_EQ(sequence.tokens, (std::vector<int32_t>{0, 1, 2, 10, 11, 99}));
  EXPECT_EQ(sequence.computed, 5);
}

TEST(Scheduler, AStepIsPlannedBeforeTheTokenOfTheLastOneIsKnown) {
  Scheduler scheduler(small_options());
  auto added = sequence_of(1, counted(3));
  added->max_length = 6;
  scheduler.add(std::move(added));
  StepPlan plan = scheduler.schedule();
  Sequence& sequence = *plan.parts[0].sequence;
  Scheduler::start(plan.parts[0], true);
  StepPlan next = scheduler.schedule();
  ASSERT_EQ(next.parts.size(), 1U);
  EXPECT_EQ(next.parts[0].begin, 3);
  EXPECT_EQ(next.parts[0].count, 1);
  EXPECT_TRUE(next.parts[0].reaches_end);
  scheduler.advance(plan.parts[0], {10});
  Scheduler::start(next.parts[0], true);
  EXPECT_EQ(sequence.tokens, (std::vector<int32_t>{0, 1, 2, 10}));
  EXPECT_EQ(sequence.computed, 4);
  plan = scheduler.schedule();
  ASSERT_EQ(plan.parts.size(), 1U);
  scheduler.advance(next.parts[0], {11});
  Scheduler::start(plan.parts[0], true);
  EXPECT_TRUE(scheduler.schedule().empty());  // the token that is awaited is the last one
}

// Random arrivals, cancellations, drafts and ends; of some schedulers every step is planned before the tokens of the
// last one are known. EASYDEL_STEPS overrides the number of steps.
TEST(Scheduler, AMillionRandomStepsLoseNoPage) {
  const char* given = std::getenv("EASYDEL_STEPS");
  const int64_t steps = given ? std::atoll(given) : 1000000;
  int64_t done = 0;
  for (uint64_t seed = 0; done < steps; ++seed) {
    Draw draw(seed);
    const SchedulerOptions options{.max_num_seqs = draw.between(1, 6),
                                   .max_num_batched_tokens = draw.between(1, 24),
                                   .page_size = draw.between(1, 5),
                                   .num_pages = draw.between(4, 24),
                                   .enable_prefix_caching = draw.chance(0.8),
                                   .enable_chunked_prefill = draw.chance(0.8)};
    Scheduler scheduler(options);
    std::map<RequestId, int64_t> goals;  // the length at which each ends
    RequestId next = 1;
    int64_t idle = 0;
    const bool looks_ahead = draw.chance(0.5);
    std::vector<std::pair<RequestId, StepPart>> started;
    for (int64_t step = 0; step < 2000 && done < steps; ++step, ++done) {
      if (draw.chance(0.3) && goals.size() < 12) {
        const int64_t length = draw.between(1, scheduler.max_length() - 1);
        auto added =
            sequence_of(next, counted(length, static_cast<int32_t>(draw.between(0, 2) * 1000)), draw.between(0, 2));
        added->uses_prefixes = draw.chance(0.9);
        added->max_length = goals[next++] = draw.between(length + 1, scheduler.max_length());
        scheduler.add(std::move(added));
      }
      if (draw.chance(0.02) && !goals.empty()) {
        const RequestId id = std::next(goals.begin(), draw.between(0, static_cast<int64_t>(goals.size()) - 1))->first;
        ASSERT_NE(scheduler.remove(id), nullptr);
        goals.erase(id);
      }
      if (draw.chance(0.001)) scheduler.forget_prefixes();
      scheduler.for_each([&](const Sequence& sequence, bool is_running) {
        const int64_t room = goals.at(sequence.id) - sequence.length() - 1;
        const bool is_next = is_running && sequence.computed == sequence.length() - 1;
        if (looks_ahead || !is_next || room <= 0 || draw.chance(0.5)) return;
        const_cast<Sequence&>(sequence).drafts.assign(static_cast<std::size_t>(std::min(room, draw.between(0, 4))), 3);
      });
      StepPlan plan = scheduler.schedule();
      ASSERT_TRUE(scheduler.is_consistent()) << "seed " << seed << ", step " << step;
      ASSERT_LE(plan.tokens, options.max_num_batched_tokens);
      ASSERT_LE(scheduler.running(), options.max_num_seqs);
      // Only a step that pushes somebody out may be empty; the next one is not.
      idle = plan.empty() && scheduler.has_work() && started.empty() ? idle + 1 : 0;
      ASSERT_LT(idle, 3) << "seed " << seed << ", step " << step;
      std::vector<RequestId> ids;
      for (const StepPart& part : plan.parts) ids.push_back(part.sequence->id);
      const auto finish = [&](RequestId id, const StepPart& part) {
        if (!goals.contains(id)) return;
        std::vector<int32_t> chosen;
        if (part.reaches_end) {
          chosen.assign(static_cast<std::size_t>(draw.between(0, part.drafts)), 3);
          chosen.push_back(static_cast<int32_t>(draw.between(0, 9)));
        }
        scheduler.advance(part, chosen);
        const bool ends_early = looks_ahead && !chosen.empty() && chosen.back() == 0;
        if (part.sequence->length() < goals.at(id) && !ends_early) return;
        ASSERT_NE(scheduler.remove(id), nullptr);
        goals.erase(id);
      };
      for (const auto& [id, part] : started) finish(id, part);
      started.clear();
      for (std::size_t i = 0; i < ids.size(); ++i) {
        StepPart& part = plan.parts[i];
        ASSERT_GT(part.count, 0);
        if (!looks_ahead) {
          finish(ids[i], part);
        } else if (goals.contains(ids[i])) {
          Scheduler::start(part, part.reaches_end);
          started.emplace_back(ids[i], part);
        }
      }
      ASSERT_TRUE(scheduler.is_consistent()) << "seed " << seed << ", step " << step;
    }
    while (!goals.empty()) {
      scheduler.remove(goals.begin()->first);
      goals.erase(goals.begin());
    }
    ASSERT_EQ(scheduler.pool().free_pages(), options.num_pages) << "seed " << seed;
  }
}

}  // namespace
}  // namespace easydel::serve

// Streams, packing and resuming.
#include "easydel/data/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <set>
#include <thread>

#include "easydel/core/error.h"
#include "easydel/data/order/walk.h"
#include "tests/data/toy_rows.h"
#include "tests/support/draw.h"

namespace easydel::data {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;
using testing_support::Draw;

int draws(int usual) {
  const char* given = std::getenv("EASYDEL_DRAWS");
  return given ? std::atoi(given) : usual;
}

struct Trial {
  std::shared_ptr<const Dataset> dataset;
  Transform transform = document_of;
  int64_t streams = 1;
  PackOptions pack;
};

Trial draw_trial(Draw& draw) {
  Trial trial;
  std::vector<SourcePtr> sources;
  MixtureOptions options{.seed = static_cast<uint64_t>(draw.between(0, 1000)),
                         .mixture_block_size = draw.between(10, 50),
                         .stop_strategy = draw.one_of<const char*>({"restart", "first_exhausted"})};
  if (draw.chance(0.7)) options.shuffle_buffer_size = draw.between(1, 50);
  for (int64_t i = 0, count = draw.between(1, 3); i < count; ++i) {
    sources.push_back(numbered_rows(draw.between(1, 80), i));
    options.informs.push_back({.name = std::to_string(i), .weight = 1.0 + static_cast<double>(i)});
  }
  trial.dataset = make_dataset(std::move(sources), options);
  trial.streams = draw.between(1, 7);
  if (draw.chance(0.6)) {
    trial.pack = {.max_length = draw.between(4, 40),
                  .strategy = draw.one_of({PackStrategy::Wrapped, PackStrategy::Bfd, PackStrategy::BfdSplit}),
                  .documents = draw.between(1, 40),
                  .threads = draw.between(1, 3)};
  } else if (draw.chance(0.5)) {
    trial.pack = {.documents = draw.between(1, 40), .threads = draw.between(1, 3), .sorts = true};
  }
  if (draw.chance(0.3)) {  // one that skips rows
    trial.transform = [](const Row& row) {
      return row.values.at("n").as_int() % 3 == 1 ? std::nullopt : document_of(row);
    };
  }
  return trial;
}

// What each stream yields in a number of steps, without threads.
std::vector<std::vector<Example>> sequences(const Trial& trial, int64_t steps) {
  std::vector<std::vector<Example>> out;
  for (int64_t s = 0; s < trial.streams; ++s) {
    Stream stream(trial.dataset, trial.transform, trial.pack, s, trial.streams);
    out.emplace_back();
    for (int64_t t = 0; t < steps; ++t) out.back().push_back(stream.next());
  }
  return out;
}

// The streams assigned to ranks at random.
std::vector<std::vector<int64_t>> deal(Draw& draw, int64_t streams) {
  std::map<int64_t, std::vector<int64_t>> ranks;
  const int64_t count = draw.between(1, streams);
  for (int64_t s = 0; s < streams; ++s) ranks[draw.between(0, count - 1)].push_back(s);
  std::vector<std::vector<int64_t>> out;
  for (auto& [rank, own] : ranks) {
    if (draw.chance(0.5)) std::reverse(own.begin(), own.end());
    out.push_back(own);
  }
  return out;
}

std::vector<std::unique_ptr<Loader>> make_loaders(Draw& draw, const Trial& trial) {
  std::vector<std::unique_ptr<Loader>> loaders;
  for (const auto& own : deal(draw, trial.streams)) {
    loaders.push_back(std::make_unique<Loader>(trial.dataset, trial.transform,
                                               LoaderOptions{.streams = trial.streams,
                                                             .own = own,
                                                             .pack = trial.pack,
                                                             .prefetch = draw.between(0, 4),
                                                             .workers = draw.between(0, 3)}));
  }
  return loaders;
}

// Kept next to the loaders, because a loader does not expose its streams.
std::vector<int64_t> own_of(const Loader& loader) {
  std::vector<int64_t> own;
  const Json state = loader.state();
  for (const auto& [number, place] : state.at("positions").as_object()) own.push_back(std::stoll(number));
  return own;
}

TEST(Loader, YieldsTheSameForAnyAssignmentOfStreamsAndAfterAnyResumption) {
  for (int seed = 0; seed < draws(150); ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(static_cast<uint64_t>(seed));
    const Trial trial = draw_trial(draw);
    const int64_t steps = draw.between(5, 40);
    std::vector<std::vector<Example>> expected;
    try {
      expected = sequences(trial, steps);
    } catch (const FormatError&) {
      continue;  // a stream that sees only skipped rows
    }
    auto loaders = make_loaders(draw, trial);
    for (int64_t t = 0; t < steps; ++t) {
      if (draw.chance(0.15)) {  // stops here and resumes with other ranks
        std::vector<Json> states;
        for (const auto& loader : loaders) states.push_back(Json::parse(loader->state().dump()));
        loaders = make_loaders(draw, trial);
        if (draw.chance(0.5)) loaders[0]->next();  // a state counts, not what came before
        for (const auto& loader : loaders) loader->restore(merge_states(states));
      }
      for (const auto& loader : loaders) {
        ASSERT_EQ(loader->step(), t);
        const auto own = own_of(*loader);
        const auto examples = loader->next();
        ASSERT_EQ(examples.size(), own.size());
        for (std::size_t i = 0; i < own.size(); ++i) {
          ASSERT_EQ(examples[i], expected[static_cast<std::size_t>(own[i])][static_cast<std::size_t>(t)])
              << "stream " << own[i] << ", step " << t;
        }
      }
    }
  }
}

TEST(Loader, StreamsHaveTheRowsOfTheSequenceInTurn) {
  const auto dataset = make_dataset({numbered_rows(10)}, {.shuffle_buffer_size = 10});
  Loader loader(dataset, document_of, {.streams = 3});
  EXPECT_EQ(loader.examples_of_epoch(), 10);
  for (int64_t t = 0; t < 20; ++t) {
    const auto examples = loader.next();
    for (int64_t s = 0; s < 3; ++s) {
      EXPECT_EQ(examples[static_cast<std::size_t>(s)], document_of(dataset->at(3 * t + s)));
    }
  }
}

TEST(Loader, StatesAreSmall) {
  const auto dataset = make_dataset({numbered_rows(1000)}, {.shuffle_buffer_size = 10});
  Loader loader(dataset, document_of, {.streams = 8, .pack = {.max_length = 64}});
  for (int i = 0; i < 50; ++i) loader.next();
  EXPECT_LT(loader.state().dump().size(), 8U * 20 + 300);
}

// The documents of a row.
void expect_whole_segments(const Example& row) {
  for (std::size_t i = 0; i < row.input_ids.size(); ++i) {
    const bool begins = i == 0 || row.segment_ids[i] != row.segment_ids[i - 1];
    ASSERT_EQ(row.position_ids[i], begins ? 0 : row.position_ids[i - 1] + 1);
    ASSERT_EQ(row.labels[i], begins ? kNoLoss : row.input_ids[i]);
    ASSERT_EQ(row.segment_ids[i], i == 0 ? 0 : row.segment_ids[i - 1] + (begins ? 1 : 0));
    if (!begins) {  // one segment is one document
      ASSERT_EQ(row.input_ids[i], row.input_ids[i - 1] + 1);
    }
  }
}

// Every token of every document of a stream, once and in order.
TEST(Packing, WrappedHasEveryTokenOnceAndCrossesNoDocument) {
  for (int seed = 0; seed < draws(100); ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(static_cast<uint64_t>(seed));
    const int64_t rows = draw.between(1, 60), streams = draw.between(1, 4), length = draw.between(1, 40);
    const auto dataset = make_dataset({numbered_rows(rows)}, {.shuffle_buffer_size = 100});
    for (int64_t s = 0; s < streams; ++s) {
      Stream stream(dataset, document_of, {.max_length = length}, s, streams);
      std::vector<int64_t> packed, documents;
      while (stream.state().documents < rows) {
        const Example row = stream.next();
        ASSERT_EQ(static_cast<int64_t>(row.input_ids.size()), length);
        expect_whole_segments(row);
        packed.insert(packed.end(), row.input_ids.begin(), row.input_ids.end());
      }
      const int64_t taken = stream.state().documents + (stream.state().offset > 0 ? 1 : 0);
      for (int64_t k = 0; k < taken; ++k) {
        const auto ids = document_of(dataset->at(s + streams * k))->input_ids;
        auto kept = static_cast<int64_t>(ids.size());
        if (k == stream.state().documents) kept = stream.state().offset;
        documents.insert(documents.end(), ids.begin(), ids.begin() + kept);
      }
      ASSERT_EQ(packed, documents);
    }
  }
}

// The rows of an epoch, assigned to the streams in turn, have every document once; long ones lose their end or are
// split.
TEST(Packing, BfdHasEveryDocumentOfAnEpochOnceForAnyNumberOfStreams) {
  for (int seed = 0; seed < draws(100); ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(static_cast<uint64_t>(seed));
    const int64_t rows = draw.between(1, 60), streams = draw.between(1, 4), length = draw.between(1, 40);
    const bool split = draw.chance(0.5);
    const auto dataset = make_dataset({numbered_rows(rows)}, {.shuffle_buffer_size = 100});
    const PackOptions pack{.max_length = length,
                           .strategy = split ? PackStrategy::BfdSplit : PackStrategy::Bfd,
                           .documents = draw.between(1, 70)};
    PackedBlocks blocks(dataset, document_of, pack, 10);
    int64_t packed_rows = 0;
    for (int64_t b = 0; b < blocks.blocks_of_epoch(); ++b) packed_rows += blocks.rows_in(b);
    std::vector<Stream> all;
    for (int64_t s = 0; s < streams; ++s) all.emplace_back(dataset, document_of, pack, s, streams);
    std::vector<int64_t> seen, expected;
    for (int64_t r = 0; r < packed_rows; ++r) {
      const Example row = all[static_cast<std::size_t>(r % streams)].next();
      ASSERT_LE(static_cast<int64_t>(row.input_ids.size()), length);
      expect_whole_segments(row);
      seen.insert(seen.end(), row.input_ids.begin(), row.input_ids.end());
    }
    for (int64_t n = 0; n < rows; ++n) {
      const int64_t kept = split ? length_of(0, n) : std::min(length_of(0, n), length);
      for (int64_t i = 0; i < kept; ++i) expected.push_back(token_of(0, n, i));
    }
    std::sort(seen.begin(), seen.end());
    std::sort(expected.begin(), expected.end());
    ASSERT_EQ(seen, expected);
  }
}

// The rows of a batch have similar lengths, and every row comes once an epoch.
TEST(Packing, SortedRowsOfAnEpochAreAllOfThemForAnyNumberOfStreams) {
  for (int seed = 0; seed < draws(40); ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(static_cast<uint64_t>(seed));
    const int64_t rows = draw.between(1, 60), streams = draw.between(1, 4);
    const auto dataset = make_dataset({numbered_rows(rows)}, {.shuffle_buffer_size = 100});
    const PackOptions pack{.documents = draw.between(1, 70), .sorts = true};
    std::vector<Stream> all;
    for (int64_t s = 0; s < streams; ++s) all.emplace_back(dataset, document_of, pack, s, streams);
    std::vector<std::vector<int64_t>> seen, expected;
    for (int64_t r = 0; r < rows; ++r) {
      seen.push_back(all[static_cast<std::size_t>(r % streams)].next().input_ids);
      const auto size = [&](int64_t row) { return seen[static_cast<std::size_t>(row)].size(); };
      ASSERT_TRUE(r % pack.documents == 0 || size(r) <= size(r - 1));
      expected.push_back(document_of(dataset->row(r))->input_ids);
    }
    std::sort(seen.begin(), seen.end());
    std::sort(expected.begin(), expected.end());
    ASSERT_EQ(seen, expected);
  }
}

TEST(Packing, ABlockIsPackedOnceForAllStreamsOnTheGivenThreads) {
  const auto dataset = make_dataset({numbered_rows(64)});
  std::atomic<int> made = 0;
  std::set<std::thread::id> threads;
  std::mutex mutex;
  const Transform transform = [&](const Row& row) {
    ++made;
    const std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
    return document_of(row);
  };
  Loader loader(dataset, transform,
                {.streams = 4,
                 .pack = {.max_length = 32, .strategy = PackStrategy::Bfd, .documents = 64, .threads = 3},
                 .prefetch = 0});
  loader.next();
  EXPECT_EQ(made, 64);
  EXPECT_EQ(threads.size(), 3U);
}

TEST(Packing, BfdReportsThatThereIsNothingToPack) {
  const auto dataset = make_dataset({numbered_rows(20)});
  Loader loader(dataset, [](const Row&) { return std::nullopt; },
                {.pack = {.max_length = 8, .strategy = PackStrategy::Bfd, .documents = 6}});
  EXPECT_THAT(
      [&] { loader.next(); },
      ThrowsMessage<FormatError>(
          "[data] an epoch has no rows to pack: all 20 of them were skipped. Check max_length and the filters."));
}

TEST(Loader, StopsWhenEverythingIsSkipped) {
  const auto dataset = make_dataset({numbered_rows(20)});
  Loader loader(dataset, [](const Row&) { return std::nullopt; }, {.streams = 2});
  EXPECT_THAT(
      [&] { loader.next(); },
      ThrowsMessage<FormatError>(HasSubstr("[data] 21 consecutive rows were skipped, the last of them numbers, row ")));
}

TEST(Loader, RethrowsAWorkersExceptionAtItsStep) {
  const auto dataset = make_dataset({numbered_rows(20)});
  const Transform fails_at_seven = [](const Row& row) {
    require<FormatError>(row.values.at("n").as_int() != 7, "[", row.place(), "] seven.");
    return document_of(row);
  };
  for (const int64_t workers : {0, 2}) {
    Loader loader(dataset, fails_at_seven, {.streams = 2, .prefetch = 8, .workers = workers});
    for (int t = 0; t < 3; ++t) loader.next();
    const Json before = loader.state();
    EXPECT_THAT([&] { loader.next(); }, ThrowsMessage<FormatError>("[numbers, row 8] seven."));
    EXPECT_THAT([&] { loader.next(); }, ThrowsMessage<FormatError>("[numbers, row 8] seven."));
    EXPECT_EQ(loader.state(), before);
  }
}

TEST(Loader, PrefetchesInTheBackground) {
  const auto dataset = make_dataset({numbered_rows(100)});
  std::atomic<int> made = 0;
  std::set<std::thread::id> threads;
  std::mutex mutex;
  Loader loader(dataset,
                [&](const Row& row) {
                  ++made;
                  const std::lock_guard lock(mutex);
                  threads.insert(std::this_thread::get_id());
                  return document_of(row);
                },
                {.streams = 4, .prefetch = 3, .workers = 2});
  for (int i = 0; i < 2000 && made < 12; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(made, 12);  // three for each stream, and no more
  EXPECT_EQ(loader.state().at("positions").at("0").dump(), "[0, 0]");
  EXPECT_FALSE(threads.contains(std::this_thread::get_id()));
}

TEST(Loader, RefusesStatesOfOtherData) {
  const auto dataset = make_dataset({numbered_rows(20)}, {.shuffle_buffer_size = 5});
  const Json state = Loader(dataset, document_of, {.streams = 2}).state();
  const auto restored = [&](const std::shared_ptr<const Dataset>& data, LoaderOptions options) {
    return [=] { Loader(data, document_of, options).restore(state); };
  };
  EXPECT_THAT(restored(dataset, {.streams = 4}),
              ThrowsMessage<ConfigError>("[Loader] the state was saved with streams 2; this loader has 4."));
  EXPECT_THAT(restored(dataset, {.streams = 2, .pack = {.max_length = 8}}),
              ThrowsMessage<ConfigError>("[Loader] the state was saved with max_length 0; this loader has 8."));
  const Json wrapped = Loader(dataset, document_of, {.streams = 2, .pack = {.max_length = 8}}).state();
  const PackOptions bfd{.max_length = 8, .strategy = PackStrategy::Bfd};
  EXPECT_THAT([&] { Loader(dataset, document_of, {.streams = 2, .pack = bfd}).restore(wrapped); },
              ThrowsMessage<ConfigError>("[Loader] the state was saved with packing \"wrapped\"; this loader has "
                                         "\"bfd\"."));
  EXPECT_THAT(restored(make_dataset({numbered_rows(21)}, {.shuffle_buffer_size = 5}), {.streams = 2}),
              ThrowsMessage<ConfigError>("[Loader] the data changed, so the run cannot be resumed: data set 1 "
                                         "had 20 rows, now 21."));
  EXPECT_THAT(restored(make_dataset({numbered_rows(20)}, {.shuffle_buffer_size = 5, .seed = 7}), {.streams = 2}),
              ThrowsMessage<ConfigError>("[Loader] the data changed, so the run cannot be resumed: seed of the "
                                         "data was 42, now 7."));
  EXPECT_THAT(restored(make_dataset({numbered_rows(20, 100)}, {.shuffle_buffer_size = 5}), {.streams = 2}),
              ThrowsMessage<ConfigError>("[Loader] the data changed, so the run cannot be resumed: the rows of "
                                         "data set 1 changed."));
  const Json part = Loader(dataset, document_of, {.streams = 2, .own = {1}}).state();
  EXPECT_THAT(
      [&] { Loader(dataset, document_of, {.streams = 2}).restore(part); },
      ThrowsMessage<ConfigError>("[Loader] the state has no entry for stream 0. Merge the states of all loaders "
                                 "with merge_states."));
}

TEST(Loader, RejectsInvalidOptions) {
  const auto dataset = make_dataset({numbered_rows(2)});
  const auto made = [&](LoaderOptions options) { return [=] { Loader(dataset, document_of, options); }; };
  EXPECT_THAT(made({.streams = 0}), ThrowsMessage<ConfigError>("[Loader] streams must be above 0; got 0."));
  EXPECT_THAT(made({.streams = 2, .own = {0, 2}}),
              ThrowsMessage<ConfigError>("[Loader] own must name streams from 0 to 1, each once; got 2."));
  EXPECT_THAT(made({.streams = 2, .own = {1, 1}}), ThrowsMessage<ConfigError>(HasSubstr("each once; got 1.")));
}

TEST(Walk, HasEveryRowOnceAndEndsWithAShortBatch) {
  const auto dataset =
      make_dataset({numbered_rows(7, 0), numbered_rows(4, 1)}, {.informs = {{.name = "a"}, {.name = "b"}}});
  Walk walk(dataset, document_of, 4);
  EXPECT_EQ(walk.steps(), 3);
  std::vector<std::size_t> sizes;
  std::vector<Example> all;
  while (!walk.is_done()) {
    const auto examples = walk.next();
    sizes.push_back(examples.size());
    all.insert(all.end(), examples.begin(), examples.end());
  }
  EXPECT_EQ(sizes, (std::vector<std::size_t>{4, 4, 3}));
  ASSERT_EQ(all.size(), 11U);
  for (int64_t i = 0; i < 11; ++i) EXPECT_EQ(all[static_cast<std::size_t>(i)], document_of(dataset->row(i)));
  Walk first(dataset, document_of, 4, {0, 1}), second(dataset, document_of, 4, {2, 3});
  EXPECT_EQ(first.steps(), second.steps());
  std::vector<Example> dealt;
  while (!first.is_done()) {
    for (Walk* part : {&first, &second}) {
      const auto examples = part->next();
      dealt.insert(dealt.end(), examples.begin(), examples.end());
    }
  }
  EXPECT_EQ(dealt, all);
}

TEST(Collate, PadsEachColumnWithItsPaddingValue) {
  Example longer{
      .input_ids = {1, 2, 3}, .labels = {kNoLoss, 2, 3}, .segment_ids = {0, 0, 1}, .position_ids = {0, 1, 0}};
  Example shorter{.input_ids = {4}, .labels = {4}, .segment_ids = {0}, .position_ids = {0}};
  const Batch batch = collate({longer, shorter}, {.pad_token_id = 9});
  EXPECT_EQ(batch.rows, 2);
  const auto values = [&](const char* name) { return batch.columns.at(name).values; };
  using V = std::vector<int64_t>;
  EXPECT_EQ(values("input_ids"), (V{1, 2, 3, 4, 9, 9}));
  EXPECT_EQ(values("labels"), (V{-100, 2, 3, 4, -100, -100}));
  EXPECT_EQ(values("attention_mask"), (V{1, 1, 1, 1, 0, 0}));
  EXPECT_EQ(values("segment_ids"), (V{0, 0, 1, 0, -1, -1}));
  EXPECT_EQ(values("position_ids"), (V{0, 1, 0, 0, 0, 0}));
  EXPECT_EQ(collate({shorter}, {.pad_token_id = 9, .pad_to = 3, .pad_left = true}).columns.at("input_ids").values,
            (V{9, 9, 4}));
  EXPECT_EQ(collate({longer}, {.pad_to_multiple_of = 4}).columns.at("input_ids").width, 4);
  EXPECT_THAT([&] { collate({longer}, {.pad_to = 2}); },
              ThrowsMessage<ConfigError>("[collate] a row of input_ids has 3 values; expected at most 2."));
}

}  // namespace
}  // namespace easydel::data

// What the options of data sets, mixtures, packing, loaders and the trainers' rows do.
#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <thread>

#include "easydel/core/build_info.h"
#include "easydel/core/files/file.h"
#include "easydel/data/dataset.h"
#include "easydel/data/loader.h"
#include "easydel/data/rows/preference.h"
#include "easydel/data/rows/sft.h"
#include "tests/data/toy_rows.h"
#include "tests/support/hub_fixture.h"
#include "tests/support/probe.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/word_tokenizer.h"

namespace easydel::data {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing_support::is_refused;
using testing_support::word_tokenizer;

// Data sets ----------------------------------------------------------------------------------------------------------

// Files to read, and the rows that options make of them.
class Rows {
 public:
  std::string write(const std::string& name, const std::string& content) const {
    fs::create_directories((directory_ / name).parent_path());
    write_file_atomically(directory_ / name, content);
    return (directory_ / name).string();
  }
  std::string directory() const { return directory_.path().string(); }
  static std::vector<std::string> of(const DatasetOptions& options, MixtureOptions mixture = {}) {
    mixture.informs = {options};
    const auto dataset = Dataset::open(mixture);
    std::vector<std::string> rows;
    for (int64_t i = 0; i < dataset->size(); ++i) rows.push_back(dataset->row(i).values.dump());
    return rows;
  }

 private:
  TemporaryDirectory directory_{memory_directory()};
};

const char* kTwo = "{\"n\": 1, \"text\": \"a\"}\n{\"n\": 2, \"text\": \"b\"}\n";

// A file here, or else the id of a data set on the hub.
PROBE(DatasetOptions, dataset_name) {
  const Rows files;
  const std::string file = files.write("a.jsonl", kTwo);
  EXPECT_EQ(Rows::of({.dataset_name = file}).size(), 2U);
  EXPECT_EQ(Rows::of({.dataset_name = file, .data_files = {file}}).size(), 4U);
  EXPECT_TRUE(is_refused("no id", [] { Rows::of({.dataset_name = "no id"}); }));
}
PROBE(DatasetOptions, type) {
  const Rows files;
  const std::string file = files.write("data.bin", "a,b\n1,2\n");
  EXPECT_THAT(Rows::of({.type = "csv", .data_files = {file}}), ElementsAre(R"({"a": "1", "b": "2"})"));
  EXPECT_THAT(Rows::of({.type = "txt", .data_files = {file}}), ElementsAre(R"({"text": "a,b"})", R"({"text": "1,2"})"));
}
PROBE(DatasetOptions, data_files) {
  const Rows files;
  const std::string a = files.write("a.jsonl", "{\"n\": 1}\n"), b = files.write("b.jsonl", "{\"n\": 2}\n");
  EXPECT_THAT(Rows::of({.data_files = {b, a}}), ElementsAre(R"({"n": 2})", R"({"n": 1})"));
}
PROBE(DatasetOptions, name) {
  const Rows files;
  const std::string file = files.write("a.jsonl", kTwo);
  EXPECT_NO_THROW(Rows::of({.data_files = {file}, .name = "mine"}, {.mixture_weights = {{"mine", 1.0}}}));
  EXPECT_TRUE(is_refused("mixture_weights", [&] {
    Rows::of({.data_files = {file}, .name = "other"}, {.mixture_weights = {{"mine", 1.0}}});
  }));
}
PROBE(DatasetOptions, dataset_split_name) {
  const Rows files;
  files.write("en/train.jsonl", "{\"n\": 1}\n");
  files.write("de/train.jsonl", "{\"n\": 2}\n");
  EXPECT_THAT(Rows::of({.data_files = {files.directory()}, .dataset_split_name = "de"}), ElementsAre(R"({"n": 2})"));
}
PROBE(DatasetOptions, split) {
  const Rows files;
  files.write("train.jsonl", kTwo);
  files.write("test.jsonl", "{\"n\": 3}\n");
  EXPECT_THAT(Rows::of({.data_files = {files.directory()}, .split = "test"}), ElementsAre(R"({"n": 3})"));
  EXPECT_EQ(Rows::of({.data_files = {files.directory()}, .split = "train[:1]"}).size(), 1U);
}
PROBE(DatasetOptions, sample_by) {
  const Rows files;
  const std::string file = files.write("a.txt", "one\ntwo\n");
  EXPECT_EQ(Rows::of({.data_files = {file}}).size(), 2U);
  EXPECT_THAT(Rows::of({.data_files = {file}, .sample_by = "document"}), ElementsAre(R"({"text": "one\ntwo\n"})"));
  EXPECT_TRUE(is_refused("sample_by", [&] { Rows::of({.data_files = {file}, .sample_by = "word"}); }));
}
PROBE(DatasetOptions, content_field) {
  const Rows files;
  const std::string file = files.write("a.jsonl", kTwo);
  EXPECT_THAT(Rows::of({.data_files = {file}, .content_field = "n"}), ElementsAre(R"({"text": 1})", R"({"text": 2})"));
}
PROBE(DatasetOptions, additional_fields) {
  const Rows files;
  const std::string file = files.write("a.jsonl", R"({"q": "Q", "id": 7, "more": 8})");
  EXPECT_THAT(Rows::of({.data_files = {file}, .content_field = "q", .additional_fields = {"id"}}),
              ElementsAre(R"({"text": "Q", "id": 7})"));
}
PROBE(DatasetOptions, format_fields) {
  const Rows files;
  const std::string file = files.write("a.jsonl", R"({"q": "Q"})");
  EXPECT_THAT(Rows::of({.data_files = {file}, .format_fields = {{"q", "prompt"}}}), ElementsAre(R"({"prompt": "Q"})"));
}
PROBE(DatasetOptions, filter_query) {
  const Rows files;
  const std::string file = files.write("a.jsonl", kTwo);
  EXPECT_THAT(Rows::of({.data_files = {file}, .filter_query = "n > 1"}), ElementsAre(HasSubstr(R"("n": 2)")));
}
PROBE(DatasetOptions, num_rows) {
  const Rows files;
  const std::string file = files.write("a.jsonl", kTwo);
  EXPECT_EQ(Rows::of({.data_files = {file}, .num_rows = 1}).size(), 1U);
  EXPECT_TRUE(is_refused("num_rows", [&] { Rows::of({.data_files = {file}, .num_rows = 0}); }));
}
PROBE(DatasetOptions, weight) {
  const auto counts = [](double weight) {
    return make_dataset(
               {numbered_rows(100, 0), numbered_rows(100, 1)},
               {.informs = {{.name = "a", .weight = weight}, {.name = "b", .weight = 1.0}}, .mixture_block_size = 40})
        ->order()
        .counts();
  };
  EXPECT_THAT(counts(1), ElementsAre(20, 20));
  EXPECT_THAT(counts(3), ElementsAre(30, 10));
}

#if EASYDEL_HAS_CURL
PROBE(DatasetOptions, revision) {
  class Hub : public HubTest {
   public:
    void TestBody() override {}
    using HubTest::add_file, HubTest::start, HubTest::command, HubTest::fixture;
  } hub;
  hub.add_file("datasets/org/data", "train.jsonl", "{\"n\": 1}\n");
  hub.add_file("next", "train.jsonl", "{\"n\": 2}\n");
  hub.start();
  hub.command(Json::object(
      {{"do", "load"}, {"repo", "datasets/org/data"}, {"folder", hub.fixture("next").string()}, {"branch", "second"}}));
  EXPECT_THAT(Rows::of({.type = "org/data"}), ElementsAre(R"({"n": 1})"));
  EXPECT_THAT(Rows::of({.type = "org/data", .revision = "second"}), ElementsAre(R"({"n": 2})"));
}
#endif

// The first `count` rows of the endless sequence, by their numbers; rows of set s count from 100 s on.
std::vector<int64_t> first_rows(const MixtureOptions& options, int64_t count, int64_t sets = 1, int64_t rows = 20) {
  std::vector<SourcePtr> sources;
  for (int64_t s = 0; s < sets; ++s) sources.push_back(numbered_rows(s == 0 ? rows : 5, s));
  const auto dataset = make_dataset(std::move(sources), options);
  std::vector<int64_t> seen;
  for (int64_t i = 0; i < count; ++i) {
    const Json row = dataset->at(i).values;
    seen.push_back(100 * row.at("set").as_int() + row.at("n").as_int());
  }
  return seen;
}

int64_t epoch_size(const MixtureOptions& options) {
  return make_dataset({numbered_rows(20, 0), numbered_rows(5, 1)}, options)->epoch_size();
}

PROBE(MixtureOptions, informs) {
  const Rows files;
  const std::string a = files.write("a.jsonl", kTwo), b = files.write("b.jsonl", "{\"n\": 3}\n");
  EXPECT_EQ(Dataset::open({.informs = {{.data_files = {a}}, {.data_files = {b}}}})->size(), 3);
}

#if EASYDEL_HAS_ZLIB
// Larger than what is kept in memory of a compressed file, and small on the disk.
std::string large_file() {
  static const Rows files;
  static const std::string file = [] {
    std::string rows;
    const std::string padding(90'000, 'x');
    for (int i = 0; i < 800; ++i) rows += Json::object({{"n", i}, {"padding", padding}}).dump() + "\n";
    const std::string plain = files.write("large.jsonl", rows);
    EXPECT_EQ(std::system(("gzip -1 " + plain).c_str()), 0);
    return plain + ".gz";
  }();
  return file;
}

// Read in order where it lies, or decompressed into a file of its own, where any row can be read at any time. Shuffled
// in windows of four, rows stay near where they were.
PROBE(MixtureOptions, streaming) {
  const auto farthest = [](bool streaming) {
    const auto dataset =
        Dataset::open({.informs = {{.data_files = {large_file()}}}, .streaming = streaming, .shuffle_buffer_size = 4});
    int64_t most = 0;
    for (int64_t i = 0; i < 20; ++i) most = std::max(most, std::abs(dataset->at(i).values.at("n").as_int() - i));
    return most;
  };
  EXPECT_LT(farthest(true), 4);
  EXPECT_GT(farthest(false), 4);
}
PROBE(MixtureOptions, cache_dir) {
  EXPECT_TRUE(is_refused("/no/such/directory", [] {
    Dataset::open({.informs = {{.data_files = {large_file()}}}, .cache_dir = "/no/such/directory", .streaming = false});
  }));
}
#endif

PROBE(MixtureOptions, text_target_field) {
  const Rows files;
  const std::string file = files.write("a.jsonl", R"({"q": "Q"})");
  EXPECT_THAT(Rows::of({.data_files = {file}, .content_field = "q"}, {.text_target_field = "body"}),
              ElementsAre(R"({"body": "Q"})"));
}
PROBE(MixtureOptions, shuffle_buffer_size) {
  EXPECT_THAT(first_rows({}, 4), ElementsAre(0, 1, 2, 3));
  std::vector<int64_t> shuffled = first_rows({.shuffle_buffer_size = 100}, 20);
  EXPECT_NE(shuffled, first_rows({}, 20));
  std::sort(shuffled.begin(), shuffled.end());
  EXPECT_EQ(shuffled, first_rows({}, 20));
}
PROBE(MixtureOptions, seed) {
  const auto drawn = [](uint64_t seed) { return first_rows({.shuffle_buffer_size = 100, .seed = seed}, 20); };
  EXPECT_EQ(drawn(1), drawn(1));
  EXPECT_NE(drawn(1), drawn(2));
}
PROBE(MixtureOptions, block_mixture) {
  EXPECT_THAT(first_rows({.block_mixture = false}, 4, 2), ElementsAre(0, 100, 1, 101));
}
PROBE(MixtureOptions, mixture_block_size) {
  const auto counts = [](int64_t size) {
    return make_dataset({numbered_rows(20, 0), numbered_rows(5, 1)}, {.mixture_block_size = size})->order().counts();
  };
  EXPECT_THAT(counts(4), ElementsAre(2, 2));
  EXPECT_THAT(counts(10), ElementsAre(5, 5));
}
PROBE(MixtureOptions, stop_strategy) {
  EXPECT_GE(epoch_size({.mixture_block_size = 4}), 38);  // until all twenty rows of the larger one were there
  EXPECT_LE(epoch_size({.mixture_block_size = 4, .stop_strategy = "first_exhausted"}), 12);
  EXPECT_TRUE(is_refused("stop_strategy", [] { epoch_size({.stop_strategy = "never"}); }));
}
PROBE(MixtureOptions, mixture_weights) {
  const auto dataset =
      make_dataset({numbered_rows(20, 0), numbered_rows(5, 1)}, {.informs = {{.name = "a"}, {.name = "b"}},
                                                                 .mixture_block_size = 10,
                                                                 .mixture_weights = {{"a", 0.8}, {"b", 0.2}}});
  EXPECT_THAT(dataset->order().counts(), ElementsAre(8, 2));
}

std::vector<std::size_t> sets_of(const MixtureOrderOptions& options, int64_t count) {
  const MixtureOrder order(options, {"a", "b"});
  std::vector<std::size_t> sets;
  for (int64_t i = 0; i < count; ++i) sets.push_back(order.at(i).dataset);
  return sets;
}

PROBE(MixtureOrderOptions, sizes) {
  const MixtureOrder order({.sizes = {3, 100}, .weights = {1, 1}, .block_size = 2}, {"a", "b"});
  int64_t passes = 0;
  for (int64_t i = 0; i < 40; ++i) {
    if (order.at(i).dataset == 0) passes = order.at(i).epoch;
  }
  EXPECT_EQ(passes, 6);  // twenty rows from a set of three
}
PROBE(MixtureOrderOptions, weights) {
  const MixtureOrder order({.sizes = {10, 10}, .weights = {3, 1}, .block_size = 8}, {"a", "b"});
  EXPECT_THAT(order.counts(), ElementsAre(6, 2));
}
PROBE(MixtureOrderOptions, block_size) {
  const MixtureOrder order({.sizes = {10, 10}, .weights = {1, 1}, .block_size = 8}, {"a", "b"});
  EXPECT_THAT(order.counts(), ElementsAre(4, 4));
}
PROBE(MixtureOrderOptions, seed) {
  MixtureOrderOptions options{.sizes = {100, 100}, .weights = {1, 1}, .block_size = 64, .seed = 1};
  const auto first = sets_of(options, 64);
  EXPECT_EQ(first, sets_of(options, 64));
  options.seed = 2;
  EXPECT_NE(first, sets_of(options, 64));
}
PROBE(MixtureOrderOptions, stop_at_first) {
  MixtureOrderOptions options{.sizes = {3, 100}, .weights = {1, 1}, .block_size = 2};
  EXPECT_GE(MixtureOrder(options, {"a", "b"}).epoch_size(), 199);
  options.stop_at_first = true;
  EXPECT_LE(MixtureOrder(options, {"a", "b"}).epoch_size(), 8);
}
PROBE(MixtureOrderOptions, round_robin) {
  EXPECT_THAT(sets_of({.sizes = {10, 10}, .weights = {9, 1}, .block_size = 10, .round_robin = true}, 4),
              ElementsAre(0, 1, 0, 1));
}

// Batches ------------------------------------------------------------------------------------------------------------

std::vector<Example> two_examples() {
  return {{.input_ids = {7, 8, 9}, .labels = {7, 8, 9}}, {.input_ids = {7}, .labels = {7}}};
}
std::vector<int64_t> ids_of(const CollateOptions& options) {
  return collate(two_examples(), options).columns.at("input_ids").values;
}
Example a_pair() {
  Example pair;
  pair.others = {{"prompt_ids", {1, 2}}, {"chosen_ids", {3, 4}}, {"rejected_ids", {5}}};
  return pair;
}

PROBE(CollateOptions, pad_token_id) { EXPECT_THAT(ids_of({.pad_token_id = 42}), ElementsAre(7, 8, 9, 7, 42, 42)); }
PROBE(CollateOptions, pad_to) {
  EXPECT_THAT(ids_of({.pad_to = 4}), ElementsAre(7, 8, 9, 0, 7, 0, 0, 0));
  EXPECT_TRUE(is_refused("at most 2", [] { ids_of({.pad_to = 2}); }));
}
PROBE(CollateOptions, pad_to_multiple_of) { EXPECT_EQ(ids_of({.pad_to_multiple_of = 8}).size(), 16U); }
PROBE(CollateOptions, pad_left) { EXPECT_THAT(ids_of({.pad_left = true}), ElementsAre(7, 8, 9, 0, 0, 7)); }
PROBE(CollateOptions, max_length) {
  const auto ids = [](const CollateOptions& options) {
    return collate_preference({a_pair()}, options).columns.at("input_ids").values;
  };
  EXPECT_THAT(ids({}), ElementsAre(1, 2, 3, 4, 1, 2, 5, 0));
  EXPECT_THAT(ids({.max_length = 3}), ElementsAre(1, 2, 3, 1, 2, 5));
}
PROBE(CollateOptions, keep_end) {
  EXPECT_THAT(collate_preference({a_pair()}, {.max_length = 3, .keep_end = true}).columns.at("input_ids").values,
              ElementsAre(2, 3, 4, 1, 2, 5));
}

// Packing and loading ------------------------------------------------------------------------------------------------

PROBE(PackOptions, max_length) {
  EXPECT_EQ(pack_lengths({3, 3, 2}, {.max_length = 4}).size(), 2U);
  EXPECT_EQ(pack_lengths({3, 3, 2}, {.max_length = 8}).size(), 1U);
}
PROBE(PackOptions, strategy) {
  // One after the other, cut where a row ends; or whole, each where it fits best.
  EXPECT_EQ(pack_lengths({3, 3, 1}, {.max_length = 4})[0], (std::vector<Piece>{{0, 0, 3}, {1, 0, 1}}));
  EXPECT_EQ(pack_lengths({3, 3, 1}, {.max_length = 4, .strategy = PackStrategy::Bfd})[0],
            (std::vector<Piece>{{0, 0, 3}, {2, 0, 1}}));
  EXPECT_EQ(pack_lengths({6}, {.max_length = 4, .strategy = PackStrategy::Bfd}).size(), 1U);
  EXPECT_EQ(pack_lengths({6}, {.max_length = 4, .strategy = PackStrategy::BfdSplit}).size(), 2U);
}

// The rows that one stream gets in so many steps, without threads of its own.
std::vector<Example> load(const LoaderOptions& options, const Transform& transform = document_of, int steps = 2) {
  Loader loader(make_dataset({numbered_rows(12)}), transform, options);
  std::vector<Example> rows;
  for (int i = 0; i < steps; ++i) {
    for (Example& example : loader.next()) rows.push_back(std::move(example));
  }
  return rows;
}

// The documents with these numbers are 1, 8, 15, 22, 6, 13 … tokens long: of twelve, more fit together than of three.
PROBE(PackOptions, documents) {
  const auto first = [](int64_t documents) {
    const PackOptions pack{.max_length = 30, .strategy = PackStrategy::Bfd, .documents = documents};
    return load({.pack = pack, .prefetch = 0})[0].input_ids;
  };
  EXPECT_NE(first(12), first(3));
  EXPECT_TRUE(is_refused("documents", [&] { first(0); }));
}
PROBE(PackOptions, threads) {
  for (const int64_t count : {1, 3}) {
    std::mutex mutex;
    std::set<std::thread::id> threads;
    const Transform transform = [&](const Row& row) {
      const std::lock_guard lock(mutex);
      threads.insert(std::this_thread::get_id());
      return document_of(row);
    };
    const PackOptions pack{.max_length = 30, .strategy = PackStrategy::Bfd, .documents = 12, .threads = count};
    load({.pack = pack, .prefetch = 0}, transform, 1);
    EXPECT_EQ(static_cast<int64_t>(threads.size()), count);
  }
}

PROBE(PackOptions, sorts) {
  const auto lengths = [](bool sorts) {
    std::vector<std::size_t> found;
    const PackOptions pack{.documents = 4, .sorts = sorts};
    for (const Example& example : load({.pack = pack, .prefetch = 0}, document_of, 8))
      found.push_back(example.input_ids.size());
    return found;
  };
  const std::vector<std::size_t> plain = lengths(false);
  std::vector<std::size_t> expected = plain;
  for (const int at : {0, 4}) std::sort(expected.begin() + at, expected.begin() + at + 4, std::greater<>());
  EXPECT_NE(plain, expected);
  EXPECT_EQ(lengths(true), expected);
  EXPECT_TRUE(is_refused("sorts", [] { load({.pack = {.max_length = 30, .sorts = true}}); }));
}

PROBE(LoaderOptions, streams) {
  EXPECT_EQ(load({}, document_of, 1).size(), 1U);
  EXPECT_EQ(load({.streams = 3}, document_of, 1).size(), 3U);
}
PROBE(LoaderOptions, own) {
  const std::vector<Example> all = load({.streams = 3}, document_of, 1);
  EXPECT_EQ(load({.streams = 3, .own = {2, 0}}, document_of, 1), (std::vector<Example>{all[2], all[0]}));
}
PROBE(LoaderOptions, pack) {
  EXPECT_EQ(load({.pack = {.max_length = 5}}, document_of, 1)[0].input_ids.size(), 5U);
  EXPECT_EQ(load({}, document_of, 1)[0].input_ids.size(), 1U);
}

// Waits until the condition holds, for some seconds at most.
bool comes_true(const std::function<bool()>& condition) {
  for (int i = 0; i < 500 && !condition(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return condition();
}

PROBE(LoaderOptions, prefetch) {
  for (const int64_t count : {0, 3}) {
    std::atomic<int64_t> made = 0;
    const Transform transform = [&](const Row& row) {
      ++made;
      return document_of(row);
    };
    const Loader loader(make_dataset({numbered_rows(12)}), transform, {.prefetch = count});
    EXPECT_TRUE(comes_true([&] { return made == count; }));
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    EXPECT_EQ(made, count);  // and no more, before somebody asks
  }
}
// Examples that are made at the same time.
PROBE(LoaderOptions, workers) {
  for (const int64_t workers : {0, 1, 2}) {
    std::mutex mutex;
    std::set<std::thread::id> threads;
    std::atomic<int64_t> inside = 0;
    std::atomic<bool> met = false;
    const Transform transform = [&](const Row& row) {
      {
        const std::lock_guard lock(mutex);
        threads.insert(std::this_thread::get_id());
      }
      ++inside;
      if (workers == 2 && comes_true([&] { return met || inside == 2; })) met = true;
      --inside;
      return document_of(row);
    };
    Loader loader(make_dataset({numbered_rows(12)}), transform, {.streams = 2, .workers = workers});
    loader.next();
    EXPECT_EQ(met, workers == 2);
    const std::lock_guard lock(mutex);
    EXPECT_EQ(threads.contains(std::this_thread::get_id()), workers == 0);
  }
}

// Rows of the trainers -----------------------------------------------------------------------------------------------

std::optional<Example> made(const Transform& transform, const Json& row) {
  const SourcePtr source = make_source({row}, "rows");
  return transform({row, source.get(), 0});
}
Example sft(const Json& row, const SftOptions& options = {}) {
  return made(make_sft_transform(word_tokenizer(), options), row).value_or(Example());
}

const Json kText = Json::object({{"text", "a b"}, {"body", "c"}});
const Json kPrompt = Json::object({{"prompt", "a"}, {"completion", " b"}});
const Json kChat = Json::parse(R"({"messages": [{"role": "user", "content": "a"},
                                                {"role": "assistant", "content": "b"}]})");

PROBE(CodecOptions, eos_token) {
  EXPECT_EQ(TextCodec(word_tokenizer(), {.eos_token = "<end>"}).with_eos("a"), "a<end>");
  EXPECT_EQ(TextCodec(word_tokenizer()).with_eos("a"), "a</s>");
  EXPECT_TRUE(is_refused("eos_token", [] { TextCodec(word_tokenizer(), {.eos_token = "<nothing>"}); }));
}
PROBE(CodecOptions, chat_template) {
  const TextCodec codec(word_tokenizer(), {.chat_template = "{{ messages[1].content }} z"});
  EXPECT_EQ(codec.render_chat(kChat.at("messages"), {}, {}), "b z");
}

PROBE(SftOptions, codec) {
  EXPECT_THAT(sft(kText).input_ids, ElementsAre(1, 5, 6, 2));
  EXPECT_THAT(sft(kText, {.codec = {.eos_token = "<end>"}}).input_ids, ElementsAre(1, 5, 6, 4));
}
PROBE(SftOptions, dataset_text_field) {
  EXPECT_THAT(sft(kText, {.dataset_text_field = "body"}).input_ids, ElementsAre(1, 7, 2));
}
PROBE(SftOptions, tokens_field_name) {
  const Json row = Json::object({{"mine", Json::array({9, 8})}, {"text", "a"}});
  EXPECT_THAT(sft(row, {.tokens_field_name = "mine"}).input_ids, ElementsAre(9, 8));
  EXPECT_THAT(sft(row).input_ids, ElementsAre(1, 5, 2));
}
PROBE(SftOptions, max_length) {
  EXPECT_THAT(sft(kText, {.max_length = 2}).input_ids, ElementsAre(1, 5));
  EXPECT_TRUE(is_refused("max_length", [] { sft(kText, {.max_length = 0}); }));
}
PROBE(SftOptions, truncation_mode) {
  EXPECT_THAT(sft(kText, {.max_length = 2, .truncation_mode = "keep_end"}).input_ids, ElementsAre(6, 2));
  EXPECT_TRUE(is_refused("truncation_mode", [] { sft(kText, {.truncation_mode = "keep_middle"}); }));
}
PROBE(SftOptions, completion_only_loss) {
  EXPECT_THAT(sft(kPrompt).labels, ElementsAre(-100, -100, 6, 2));
  EXPECT_THAT(sft(kPrompt, {.completion_only_loss = false}).labels, ElementsAre(1, 5, 6, 2));
}
PROBE(SftOptions, assistant_only_loss) {
  EXPECT_THAT(sft(kChat).labels, ElementsAre(5, 6, 2));
  EXPECT_THAT(sft(kChat, {.assistant_only_loss = true}).labels, ElementsAre(-100, 6, 2));
}
PROBE(SftOptions, train_on_inputs) {
  EXPECT_THAT(sft(kChat, {.train_on_inputs = false}).labels, ElementsAre(-100, 6, 2));
}
PROBE(SftOptions, add_special_tokens) {
  EXPECT_THAT(sft(kText, {.add_special_tokens = false}).input_ids, ElementsAre(5, 6, 2));
}

const Json kPair = Json::object({{"prompt", "a b"}, {"chosen", " c"}, {"rejected", " d e"}});
std::optional<Example> dpo(const PreferenceOptions& options) {
  return made(make_dpo_transform(word_tokenizer(), options), kPair);
}

PROBE(PreferenceOptions, codec) {
  EXPECT_THAT(dpo({})->others.at("chosen_ids"), ElementsAre(7, 2));
  EXPECT_THAT(dpo({.codec = {.eos_token = "<end>"}})->others.at("chosen_ids"), ElementsAre(7, 4));
}
// A prompt of three tokens that leaves no room for an answer.
PROBE(PreferenceOptions, max_length) {
  EXPECT_TRUE(dpo({.max_length = 4}).has_value());
  EXPECT_FALSE(dpo({.max_length = 3}).has_value());
}
PROBE(PreferenceOptions, truncation_mode) {
  EXPECT_TRUE(dpo({.max_length = 3, .truncation_mode = "keep_end"}).has_value());
  EXPECT_TRUE(is_refused("truncation_mode", [] { dpo({.truncation_mode = "keep_middle"}); }));
}

}  // namespace
}  // namespace easydel::data

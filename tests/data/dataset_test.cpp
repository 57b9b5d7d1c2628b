// From options to rows: files, globs, splits, fields, filters, limits.
#include "easydel/data/dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <thread>

#include "easydel/core/build_info.h"
#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/data/loader.h"
#include "easydel/data/sources/data_files.h"
#include "tests/data/toy_rows.h"
#include "tests/support/hub_fixture.h"
#include "tests/support/python.h"
#include "tests/support/temporary_directory.h"

namespace easydel::data {
namespace {

using testing::ElementsAre;

class DatasetFiles : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& content) {
    const auto path = directory_ / name;
    std::filesystem::create_directories(path.parent_path());
    write_file_atomically(path, content);
    return path.string();
  }
  std::string path(const std::string& name) { return (directory_ / name).string(); }
  std::vector<std::string> names(const DatasetOptions& options) {
    std::vector<std::string> out;
    for (const DataFile& file : find_data_files(options)) {
      out.push_back(file.path.lexically_relative(directory_.path()).string());
    }
    return out;
  }
  static std::vector<std::string> rows(const DatasetOptions& options, const MixtureOptions& mixture = {}) {
    MixtureOptions all = mixture;
    all.informs = {options};
    const auto dataset = Dataset::open(all);
    std::vector<std::string> out;
    for (int64_t i = 0; i < dataset->size(); ++i) out.push_back(dataset->row(i).values.dump());
    return out;
  }

  TemporaryDirectory directory_{memory_directory()};
};

TEST_F(DatasetFiles, AreFoundByGlobDirectoryAndName) {
  for (const char* name : {"b.jsonl", "a.jsonl", "sub/c.jsonl", "sub/deep/d.csv.gz", ".hidden.jsonl", "readme.md"}) {
    write(name, "");
  }
  EXPECT_THAT(names({.data_files = {path("*.jsonl")}}), ElementsAre("a.jsonl", "b.jsonl"));
  EXPECT_THAT(names({.data_files = {path("**/*.jsonl")}}), ElementsAre("a.jsonl", "b.jsonl", "sub/c.jsonl"));
  EXPECT_THAT(names({.data_files = {path("s?b/[a-c].jsonl")}}), ElementsAre("sub/c.jsonl"));
  EXPECT_THAT(names({.data_files = {path("b.jsonl"), path("a.jsonl")}}), ElementsAre("b.jsonl", "a.jsonl"));
  EXPECT_THAT(names({.data_files = {directory_.path().string()}}),
              ElementsAre("a.jsonl", "b.jsonl", "sub/c.jsonl", "sub/deep/d.csv.gz"));
}

TEST_F(DatasetFiles, OfADirectoryAreChosenBySplit) {
  for (const char* name : {"train-00000.jsonl", "train-00001.jsonl", "validation.jsonl", "en/test.jsonl"})
    write(name, "");
  const std::string all = directory_.path().string();
  EXPECT_THAT(names({.data_files = {all}}), ElementsAre("train-00000.jsonl", "train-00001.jsonl"));
  EXPECT_THAT(names({.data_files = {all}, .split = "valid[:5]"}), ElementsAre("validation.jsonl"));
  EXPECT_THAT(names({.data_files = {all}, .dataset_split_name = "en", .split = "test"}), ElementsAre("en/test.jsonl"));
  EXPECT_THAT(names({.data_files = {all}, .dataset_split_name = "train"}),
              ElementsAre("train-00000.jsonl", "train-00001.jsonl"));
  EXPECT_THAT(names({.data_files = {all}, .dataset_split_name = "validation"}), ElementsAre("validation.jsonl"));
}

TEST_F(DatasetFiles, SplitsAreCutAsTheDatasetsPackageCutsThem) {
  std::string lines;
  for (int i = 0; i < 10; ++i) lines += concat(R"({"n":)", i, "}\n");
  const std::string file = write("a.jsonl", lines);
  const auto first_and_count = [&](const std::string& split) {
    const auto found = rows({.data_files = {file}, .split = split});
    return concat(found[0], " ", found.size());
  };
  EXPECT_EQ(first_and_count("train"), R"({"n": 0} 10)");
  EXPECT_EQ(first_and_count("train[:3]"), R"({"n": 0} 3)");
  EXPECT_EQ(first_and_count("train[-3:]"), R"({"n": 7} 3)");
  EXPECT_EQ(first_and_count("train[20%:50%]"), R"({"n": 2} 3)");
  EXPECT_EQ(first_and_count("train[5:100]"), R"({"n": 5} 5)");
}

TEST_F(DatasetFiles, FieldsAreRenamedAndKept) {
  const std::string file = write("a.jsonl", R"({"q": "Q", "a": "A", "id": 7, "prompt": "old"})");
  EXPECT_THAT(rows({.data_files = {file}, .format_fields = {{"q", "prompt"}, {"a", "completion"}}}),
              ElementsAre(R"({"prompt": "Q", "completion": "A", "id": 7})"));
  EXPECT_THAT(rows({.data_files = {file}, .content_field = "q"}), ElementsAre(R"({"text": "Q"})"));
  EXPECT_THAT(
      rows({.data_files = {file}, .content_field = "q", .additional_fields = {"id"}}, {.text_target_field = "content"}),
      ElementsAre(R"({"content": "Q", "id": 7})"));
  EXPECT_THAT(rows({.data_files = {file}, .content_field = "prompt", .additional_fields = {"a"}}),
              ElementsAre(R"({"prompt": "old", "a": "A"})"));
}

TEST_F(DatasetFiles, FiltersAndLimitsKeepTheFirstRowsThatPass) {
  std::string lines;
  for (int i = 0; i < 10; ++i) lines += concat(R"({"n": )", i, R"(, "lang": ")", i % 2 ? "en" : "de", "\"}\n");
  const std::string file = write("a.jsonl", lines);
  EXPECT_THAT(
      rows({.data_files = {file}, .content_field = "n", .filter_query = "lang == 'en' and n > 2", .num_rows = 2}),
      ElementsAre(R"({"text": 3})", R"({"text": 5})"));
  EXPECT_EQ(rows({.data_files = {file}, .num_rows = 4}).size(), 4U);
  EXPECT_EQ(rows({.data_files = {file}, .num_rows = 400}).size(), 10U);
}

TEST_F(DatasetFiles, TypeOverrulesTheName) {
  const std::string file = write("data.bin", "a,b\n1,2\n");
  EXPECT_THAT(rows({.type = "csv", .data_files = {file}}), ElementsAre(R"({"a": "1", "b": "2"})"));
  EXPECT_THAT(rows({.type = "txt", .data_files = {file}}), ElementsAre(R"({"text": "a,b"})", R"({"text": "1,2"})"));
  EXPECT_THAT(rows({.type = "txt", .data_files = {file}, .sample_by = "document"}),
              ElementsAre(R"({"text": "a,b\n1,2\n"})"));
}

TEST_F(DatasetFiles, JsonMayHaveAnObjectOnEachLine) {
  EXPECT_EQ(rows({.data_files = {write("a.json", "{\"n\": 1}\n{\"n\": 2}\n")}}).size(), 2U);
  EXPECT_EQ(rows({.data_files = {write("b.json", "{\"n\": 1}")}}).size(), 1U);
  EXPECT_EQ(rows({.data_files = {write("c.json", "\n[{\"n\": 1},\n {\"n\": 2}]")}}).size(), 2U);
  EXPECT_EQ(rows({.data_files = {write("d.json", "{\"data\": [{\"n\": 1}]}\n")}}).size(), 1U);
  EXPECT_EQ(rows({.type = "json", .data_files = {write("e.jsonl", "{\"n\": 1}\n{\"n\": 2}\n")}}).size(), 2U);
}

TEST_F(DatasetFiles, SeveralFilesAreOneAfterTheOtherWithEmptyOnesBetween) {
  write("1.jsonl", "{\"n\": 1}\n");
  write("2.jsonl", "");
  write("3.jsonl", "\n\n{\"n\": 3}");
  EXPECT_THAT(rows({.data_files = {path("*.jsonl")}}), ElementsAre(R"({"n": 1})", R"({"n": 3})"));
}

// End to end: a mixture of files, shuffled, in threads, one rank and two.
TEST_F(DatasetFiles, GoThroughALoader) {
  std::string lines, csv = "set,n\n";
  for (int i = 0; i < 50; ++i) lines += concat(R"({"set": 0, "n": )", i, "}\n");
  for (int i = 0; i < 30; ++i) csv += concat("1,", i, "\n");
  MixtureOptions options{.informs = {{.data_files = {write("a.jsonl", lines)}, .name = "a", .weight = 0.6},
                                     {.data_files = {write("b.csv", csv)}, .name = "b", .weight = 0.4}},
                         .shuffle_buffer_size = 100,
                         .mixture_block_size = 10};
  const auto dataset = Dataset::open(options);
  EXPECT_EQ(dataset->size(), 80);
  const Transform numbers = [](const Row& row) {
    const Json& n = row.values.at("n");  // CSV values are strings
    Example out;
    out.input_ids = {n.is_string() ? 1000 + std::stoll(n.as_string()) : n.as_int()};
    out.labels = out.input_ids;
    return std::optional(out);
  };
  Loader whole(dataset, numbers, {.streams = 5}), low(dataset, numbers, {.streams = 5, .own = {0, 1}}),
      high(dataset, numbers, {.streams = 5, .own = {2, 3, 4}});
  std::map<int64_t, int> seen;
  for (int64_t t = 0; t < dataset->epoch_size() / 5; ++t) {
    const auto examples = whole.next(), first = low.next(), second = high.next();
    for (std::size_t i = 0; i < 5; ++i) {
      EXPECT_EQ(examples[i], i < 2 ? first[i] : second[i - 2]);
      ++seen[examples[i].input_ids[0]];
    }
  }
  EXPECT_GE(seen.size(), 78U);  // all but those of the last, incomplete batch
}

// A compressed file that is read in order: every row once an epoch, for streams at different positions.
TEST_F(DatasetFiles, ThatAreReadInOrderAreShuffledInWindows) {
  if (!EASYDEL_HAS_ZLIB || !EASYDEL_HAS_ZSTD) GTEST_SKIP();
  run_python("data_broken_peer.py", {directory_.path().string()});
  for (const char* name : {"small.jsonl.gz", "small.jsonl.zst"}) {
    const SourcePtr source =
        open_records(directory_ / name, RecordKind::JsonLine, {.streaming = true, .memory_limit = 0});
    ASSERT_EQ(source->access(), Access::InOrder);
    ASSERT_EQ(source->size(), 20);
    const auto dataset = make_dataset({source}, {.shuffle_buffer_size = 6});
    const Transform numbers = [](const Row& row) {
      return std::optional(Example{.input_ids = {row.values.at("n").as_int()}, .labels = {0}});
    };
    Loader loader(dataset, numbers, {.streams = 4, .prefetch = 3, .workers = 3});
    for (int epoch = 0; epoch < 3; ++epoch) {
      std::set<int64_t> seen;
      for (int t = 0; t < 5; ++t) {
        for (const Example& example : loader.next()) seen.insert(example.input_ids[0]);
      }
      EXPECT_EQ(seen.size(), 20U);
    }
  }
}

// Many threads, any order.
TEST_F(DatasetFiles, AreReadByManyThreadsAtATime) {
  std::string lines;
  for (int i = 0; i < 3000; ++i) lines += concat(R"({"n": )", i, "}\n");
  const std::string file = write("a.jsonl", lines);
  const SourcePtr plain = open_records(file, RecordKind::JsonLine, {});
  std::atomic<int> wrong = 0;
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 2000; ++i) {
        const int64_t index = (i * 37 + t * 911) % 3000;
        wrong += plain->row(index).at("n").as_int() != index;
      }
    });
  }
  threads.clear();
  EXPECT_EQ(wrong, 0);
}

#if EASYDEL_HAS_CURL
class DatasetHub : public HubTest {};

TEST_F(DatasetHub, IsReadThroughItsCache) {
  add_file("datasets/org/data", "data/train-00000.jsonl", "{\"n\": 1}\n{\"n\": 2}\n");
  add_file("datasets/org/data", "data/test-00000.jsonl", "{\"n\": 3}\n");
  add_file("datasets/org/data", "README.md", "# data\n");
  add_file("datasets/org/plain", "rows.csv", "n\n4\n");
  start();
  const auto rows = [](const DatasetOptions& options) {
    std::string out;
    const auto dataset = Dataset::open({.informs = {options}});
    for (int64_t i = 0; i < dataset->size(); ++i) out += dataset->row(i).values.dump();
    return out;
  };
  EXPECT_EQ(rows({.type = "org/data"}), R"({"n": 1}{"n": 2})");
  EXPECT_EQ(count("GET", "test-00000"), 0U);  // not asked for
  EXPECT_EQ(rows({.type = "huggingface", .data_files = {"org/data"}, .split = "test"}), R"({"n": 3})");
  EXPECT_EQ(rows({.type = "org/data", .data_files = {"data/train-*.jsonl"}, .split = "train[:1]"}), R"({"n": 1})");
  EXPECT_EQ(rows({.type = "org/plain"}), R"({"n": "4"})");
  EXPECT_EQ(rows({.data_files = {"hub://org/data/data/test-00000.jsonl"}}), R"({"n": 3})");
  EXPECT_EQ(rows({.data_files = {"hf://datasets/org/data/data/*.jsonl"}}), R"({"n": 3}{"n": 1}{"n": 2})");
}
#endif

}  // namespace
}  // namespace easydel::data

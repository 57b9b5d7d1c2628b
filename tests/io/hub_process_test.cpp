// Several processes on one cache, and processes that are killed.
#include <thread>

#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/io/hub/hash.h"
#include "tests/support/hub_fixture.h"
#include "tests/support/killed_child.h"

namespace easydel {
namespace {

namespace fs = std::filesystem;

constexpr const char* kProcessModel = "models/org/tiny";
const std::string kShard = "model-00001-of-00002.safetensors";
const std::vector<std::string> kLoadedByProcesses = {"config.json", "tokenizer.json", kShard,
                                                     "model-00002-of-00002.safetensors"};

class HubProcessTest : public HubTest {
 protected:
  HubProcessTest() {
    add_small_model();
    start();
  }
  int64_t size_of(const fs::path& path) {
    std::error_code error;
    const auto size = fs::file_size(path, error);
    return error ? -1 : static_cast<int64_t>(size);
  }
  fs::path partial() {
    return repo_cache() / "blobs" / (sha256_of_file(fixture(kProcessModel) / kShard) + ".incomplete");
  }
};

TEST_F(HubProcessTest, TwoProcessesShareOneDownload) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "The thread sanitizer allows no new threads after a fork of a process that has some.";
#endif
  fault(Json::object({{"match", "cdn GET"}, {"kind", "stall"}, {"after", 1'000}, {"times", 2}}));
  ForkedProcess first([] { resolve("org/tiny"); });
  ASSERT_TRUE(wait_until([&] { return count("GET", "/blob/") == 2; }));
  ForkedProcess second([] { resolve("org/tiny"); });
  ASSERT_TRUE(wait_until([&] { return count("GET", "/revision/") == 2; }));  // the second is on its way
  std::this_thread::sleep_for(std::chrono::milliseconds(100));               // and has time for a race to show
  command(Json::object({{"do", "release"}}));
  EXPECT_EQ(first.wait(), 0);
  EXPECT_EQ(second.wait(), 0);
  EXPECT_EQ(count("GET", "/blob/"), 2U);
  EXPECT_EQ(count("GET", "/config.json"), 1U);
  EXPECT_EQ(count("GET", "/tokenizer.json"), 1U);
  expect_same_files(resolve("org/tiny", {.local_files_only = true}), kProcessModel, kLoadedByProcesses);
}

class HubKillTest : public HubProcessTest, public testing::WithParamInterface<int> {};

TEST_P(HubKillTest, TheNextAttemptResumesAndCompletes) {
  const int64_t after = GetParam();
  fault(Json::object({{"match", "cdn GET"}, {"kind", "stall"}, {"after", after}}));
  ForkedProcess victim([] { resolve("org/tiny", {.files = {kShard}}); });
  ASSERT_TRUE(wait_until([&] { return count("GET", "/blob/") == 1 && size_of(partial()) == after; }));
  victim.kill();
  EXPECT_EQ(victim.wait(), 128 + 9);
  EXPECT_EQ(message_of([] { resolve("org/tiny", {.files = {kShard}, .local_files_only = true}); }).substr(0, 5),
            "[hub]");
  forget_requests();
  expect_same_files(resolve("org/tiny"), kProcessModel, kLoadedByProcesses);
  const Json again = requests("GET", "/blob/" + sha256_of_file(fixture(kProcessModel) / kShard));
  ASSERT_EQ(again.size(), 1U);
  EXPECT_EQ(again.at(0).at("range"), after == 0 ? Json() : Json("bytes=" + std::to_string(after) + "-"));
  EXPECT_EQ(incomplete_blob(), fs::path());
}

INSTANTIATE_TEST_SUITE_P(After, HubKillTest, testing::Values(0, 1, 4'096, 150'000, 299'999));

TEST_F(HubProcessTest, KilledBeforeAnySystemCallTheNextAttemptCompletes) {
  const std::vector<std::string> names = {"config.json", "model-00002-of-00002.safetensors"};
  ChildEnd end = ChildEnd::Killed;
  for (int call = 0; end == ChildEnd::Killed; call += 7) {
    fs::remove_all(cache());
    end = run_until_system_call(call, [&] { resolve("org/tiny", {.files = names, .max_workers = 1}); });
    if (end == ChildEnd::NoTracing) GTEST_SKIP() << "this system does not allow tracing";
    expect_same_files(resolve("org/tiny", {.files = names}), kProcessModel, names);
    EXPECT_EQ(incomplete_blob(), fs::path());
  }
}

TEST_F(HubProcessTest, AWaitingProcessTakesOverFromOneThatDies) {
  fault(Json::object({{"match", "cdn GET"}, {"kind", "stall"}, {"after", 10'000}}));
  ForkedProcess first([] { resolve("org/tiny", {.files = {kShard}}); });
  ASSERT_TRUE(wait_until([&] { return size_of(partial()) == 10'000; }));
  ForkedProcess second([] { resolve("org/tiny", {.files = {kShard}}); });
  ASSERT_TRUE(wait_until([&] { return count("GET", "/revision/") == 2; }));
  first.kill();
  EXPECT_EQ(first.wait(), 128 + 9);
  EXPECT_EQ(second.wait(), 0);
  EXPECT_EQ(requests("GET", "/blob/").at(1).at("range").as_string(), "bytes=10000-");
  expect_same_files(resolve("org/tiny", {.files = {kShard}, .local_files_only = true}), kProcessModel, {kShard});
}

TEST_F(HubProcessTest, TheDownloadCommandPrintsTheSnapshot) {
  const char* build = std::getenv("EASYDEL_BINARY_DIR");
  ASSERT_NE(build, nullptr);
  const std::string program = std::string(build) + "/bin/easydel";
  ChildProcess all({program, "download", "org/tiny"});
  const std::string printed = all.read_all();
  EXPECT_EQ(all.wait(), 0);
  EXPECT_EQ(printed, resolve("org/tiny", {.local_files_only = true}).string() + "\n");

  add_file("datasets/org/data", "train.jsonl", "{}\n");
  add_file("datasets/org/data", "test.jsonl", "{}\n");
  command(Json::object({{"do", "load"},
                        {"repo", "datasets/org/data"},
                        {"folder", fixture("datasets/org/data").string()},
                        {"branch", "v1"}}));
  set_repo("datasets/org/data", Json::object({{"private", true}}));
  ChildProcess some({program, "download", "org/data", "--repo-type", "dataset", "--revision", "v1", "--include", "tr*",
                     "--include", "*.none", "--token", "hf_good", "--quiet"});
  const std::string snapshot = some.read_all();
  EXPECT_EQ(some.wait(), 0);
  EXPECT_EQ(read_file(fs::path(snapshot.substr(0, snapshot.size() - 1)) / "train.jsonl"), "{}\n");
  EXPECT_FALSE(fs::exists(fs::path(snapshot.substr(0, snapshot.size() - 1)) / "test.jsonl"));

  ChildProcess absent({program, "download", "org/nope"});
  EXPECT_EQ(absent.read_all(), "");
  EXPECT_EQ(absent.wait(), 1);
  ChildProcess wrong({program, "download", "org/tiny", "--repo-type", "bucket"});
  EXPECT_EQ(wrong.wait(), 2);
}

}  // namespace
}  // namespace easydel

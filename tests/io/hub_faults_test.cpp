// Downloads when the connection, the server or the disk fails on the way.
#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/io/hub/hash.h"
#include "tests/support/file_size_limit.h"
#include "tests/support/hub_fixture.h"

namespace easydel {
namespace {

namespace fs = std::filesystem;
using testing::StartsWith;
using testing::ThrowsMessage;
using testing::UnorderedElementsAre;

using HubFaultsTest = TinyModelTest;

TEST_F(HubFaultsTest, ResumesAfterADroppedConnection) {
  fault_on("cdn GET", Json::object({{"kind", "cut"}, {"after", 100'000}}));
  fault_on("cdn GET", Json::object({{"kind", "cut"}, {"after", 50'000}}));
  const std::string name = "model-00001-of-00002.safetensors";
  expect_same_files(resolve("org/tiny", {.files = {name}}), kModel, {name});
  const Json gets = requests("GET", "/blob/");
  ASSERT_EQ(gets.size(), 3U);
  EXPECT_EQ(gets.at(1).at("range").as_string(), "bytes=100000-");
  EXPECT_EQ(gets.at(2).at("range").as_string(), "bytes=150000-");
}

TEST_F(HubFaultsTest, ProgressResetsTheRetryCount) {
  fault_on("cdn GET", Json::object({{"kind", "cut"}, {"after", 20'000}, {"times", 14}}));
  const std::string name = "model-00001-of-00002.safetensors";
  expect_same_files(resolve("org/tiny", {.files = {name}, .retry = RetryPolicy{.max_retries = 1, .base_delay = 0}}),
                    kModel, {name});
  EXPECT_EQ(count("GET", "/blob/"), 15U);
}

TEST_F(HubFaultsTest, StartsOverWhenTheServerDoesNotSupportRanges) {
  fault_on("cdn GET", Json::object({{"kind", "cut"}, {"after", 100'000}}));
  fault_on("cdn GET", Json::object({{"kind", "no_range"}}));
  const std::string name = "model-00001-of-00002.safetensors";
  expect_same_files(resolve("org/tiny", {.files = {name}}), kModel, {name});
}

TEST_F(HubFaultsTest, ResumesThePartialFileOfAnEarlierProcess) {
  const std::string name = "model-00001-of-00002.safetensors";
  fs::create_directories(repo_cache() / "blobs");
  const fs::path partial = repo_cache() / "blobs" / (sha256(name) + ".incomplete");
  write_file_atomically(partial, read_file(fixture(kModel) / name).substr(0, 123'456));
  expect_same_files(resolve("org/tiny", {.files = {name}}), kModel, {name});
  EXPECT_EQ(requests("GET", "/blob/").at(0).at("range").as_string(), "bytes=123456-");
  EXPECT_FALSE(fs::exists(partial));
}

TEST_F(HubFaultsTest, NeedsNoRequestForACompletePartialFile) {
  const std::string name = "model-00001-of-00002.safetensors";
  fs::create_directories(repo_cache() / "blobs");
  write_file_atomically(repo_cache() / "blobs" / (sha256(name) + ".incomplete"), read_file(fixture(kModel) / name));
  expect_same_files(resolve("org/tiny", {.files = {name}}), kModel, {name});
  EXPECT_EQ(count("GET", "/resolve/"), 0U);
}

TEST_F(HubFaultsTest, DiscardsAWrongPartialFile) {
  const std::string name = "model-00001-of-00002.safetensors";
  const fs::path partial = repo_cache() / "blobs" / (sha256(name) + ".incomplete");
  for (const std::size_t size : {1'000U, 300'000U, 400'000U}) {  // shorter, as long, longer
    fs::remove_all(repo_cache());
    fs::create_directories(partial.parent_path());
    write_file_atomically(partial, std::string(size, 'x'));
    const CapturedLog log;
    expect_same_files(resolve("org/tiny", {.files = {name}}), kModel, {name});
    EXPECT_EQ(log.warnings().size(), size > 300'000 ? 0U : 1U);
  }
}

TEST_F(HubFaultsTest, FetchesOnceMoreWhenTheHashIsWrong) {
  const CapturedLog log;
  fault_on("cdn GET", Json::object({{"kind", "corrupt"}}));
  fault_on("hub GET .*config.json", Json::object({{"kind", "corrupt"}}));
  expect_same_files(resolve("org/tiny", {.files = {"config.json", "model-00001-of-00002.safetensors"}}), kModel,
                    {"config.json", "model-00001-of-00002.safetensors"});
  EXPECT_THAT(log.warnings(),
              UnorderedElementsAre(
                  "[hub] \"config.json\" of model \"org/tiny\" at \"main\" has a wrong hash; downloading it once more.",
                  "[hub] \"model-00001-of-00002.safetensors\" of model \"org/tiny\" at \"main\" has a wrong hash; "
                  "downloading it once more."));
}

TEST_F(HubFaultsTest, RefusesAHashThatStaysWrong) {
  const CapturedLog log;
  const std::string name = "model-00001-of-00002.safetensors";
  std::string wrong = read_file(fixture(kModel) / name);
  wrong[0] ^= 1;
  fault_on("cdn GET", Json::object({{"kind", "corrupt"}, {"times", -1}}));
  EXPECT_THAT([&] { resolve("org/tiny", {.files = {name}}); },
              ThrowsMessage<FormatError>(
                  "[hub] \"" + name + "\" of model \"org/tiny\" at \"main\" must have the SHA-256 " + sha256(name) +
                  "; the download has " + sha256_hex(wrong) + ". Try again, or check HF_ENDPOINT."));
  std::string config = read_file(fixture(kModel) / "config.json");
  const std::string right = git_blob_hash(config);
  config[0] ^= 1;
  fault_on("hub GET .*config.json", Json::object({{"kind", "corrupt"}, {"times", -1}}));
  EXPECT_THAT([&] { resolve("org/tiny", {.files = {"config.json"}}); },
              ThrowsMessage<FormatError>(
                  "[hub] \"config.json\" of model \"org/tiny\" at \"main\" must have the git SHA-1 " + right +
                  "; the download has " + git_blob_hash(config) + ". Try again, or check HF_ENDPOINT."));
  EXPECT_FALSE(fs::exists(repo_cache() / "snapshots" / commit() / name));
  forget_requests();
  expect_same_files(resolve("org/tiny"), kModel, kLoaded);  // nothing is left that would break this
}

TEST_F(HubFaultsTest, RefusesAnotherSizeBeforeItIsDownloaded) {
  const std::string name = "model-00001-of-00002.safetensors";
  for (const int64_t length : {299'999, 300'001}) {
    fault_on("cdn GET", Json::object({{"kind", "length"}, {"length", length}}));
    EXPECT_EQ(message_of([&] { resolve("org/tiny", {.files = {name}}); }),
              "[hub] \"" + name + "\" of model \"org/tiny\" at \"main\" must have 300000 bytes; the server sends " +
                  std::to_string(length) + ". Try again, or check HF_ENDPOINT.");
  }
  expect_same_files(resolve("org/tiny", {.files = {name}}), kModel, {name});
}

TEST_F(HubFaultsTest, RejectsARangeOtherThanTheRequestedOne) {
  const std::string name = "model-00001-of-00002.safetensors";
  fault_on("cdn GET", Json::object({{"kind", "cut"}, {"after", 100'000}}));
  fault_on("cdn GET", Json::object({{"kind", "wrong_range"}}));
  EXPECT_EQ(message_of([&] { resolve("org/tiny", {.files = {name}}); }),
            "[hub] \"" + name +
                "\" of model \"org/tiny\" at \"main\" was requested from byte 100000; the server sent bytes "
                "0-299999/300000.");
  expect_same_files(resolve("org/tiny", {.files = {name}}), kModel, {name});
}

TEST_F(HubFaultsTest, RetriesTransientFailuresAtEachStage) {
  for (const char* stage : {"GET .*/revision/", "GET .*/tree/", "hub GET .*/resolve/", "cdn GET"}) {
    fs::remove_all(cache());
    fault_on(stage, Json::object({{"kind", "status"}, {"status", 503}}));
    fault_on(stage, Json::object({{"kind", "drop"}}));
    expect_same_files(resolve("org/tiny"), kModel, kLoaded);
  }
}

TEST_F(HubFaultsTest, OneFailureStopsTheOthersAndIsReported) {
  fault_on("cdn GET", Json::object({{"kind", "stall"}, {"after", 10}, {"times", 1}}));
  fault_on("hub GET .*config.json", Json::object({{"kind", "status"}, {"status", 403}}));
  EXPECT_THAT(message_of([&] { resolve("org/tiny"); }), StartsWith("[hub] \"config.json\" of model"));
  command(Json::object({{"do", "release"}}));
}

TEST_F(HubFaultsTest, AFullDiskKeepsThePartialFile) {
  const std::string name = "model-00001-of-00002.safetensors";
  const fs::path partial = repo_cache() / "blobs" / (sha256(name) + ".incomplete");
  {
    const FileSizeLimit full(100'000);
    EXPECT_EQ(
        message_of([&] { resolve("org/tiny", {.files = {name}}); }),
        "[hub] cannot write " + partial.string() +
            " after 100000 bytes: File too large. The partial file is kept, and the next attempt resumes from it.");
  }
  forget_requests();
  expect_same_files(resolve("org/tiny", {.files = {name}}), kModel, {name});
  EXPECT_EQ(requests("GET", "/blob/").at(0).at("range").as_string(), "bytes=100000-");
}

}  // namespace
}  // namespace easydel

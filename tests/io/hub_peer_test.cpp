// The same server and the same cache, used by huggingface_hub and by us.
#include <algorithm>
#include <thread>

#include "easydel/core/files/file.h"
#include "easydel/io/hub/hash.h"
#include "easydel/io/hub/hub_push.h"
#include "tests/support/hub_fixture.h"

namespace easydel {
namespace {

namespace fs = std::filesystem;

constexpr const char* kModel = "models/org/tiny";
const std::vector<std::string> kLoaded = {"config.json", "tokenizer.json", "model-00001-of-00002.safetensors",
                                          "model-00002-of-00002.safetensors"};
const std::vector<std::string> kAll = {
    "config.json",          "tokenizer.json", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
    "original/params.json", "README.md"};

class HubPeerTest : public HubTest {
 protected:
  HubPeerTest() {
    add_small_model();
    add_file("datasets/org/data", "data/train.jsonl", "{}\n");
    start();
  }
  // Where huggingface_hub says the snapshot is.
  std::string their_snapshot(const std::string& repo, const std::string& arguments = "{}") {
    const Json answer = peer({"snapshot", repo, arguments});
    return answer.contains("path") ? answer.at("path").as_string() : answer.dump();
  }
};

TEST_F(HubPeerTest, WhatTheyDownloadedWeFindOffline) {
  const fs::path theirs = their_snapshot("org/tiny");
  expect_same_files(theirs, kModel, kAll);
  const fs::path data = their_snapshot("org/data", R"({"repo_type": "dataset"})");
  forget_requests();
  EXPECT_EQ(resolve("org/tiny", {.files = {"*"}, .local_files_only = true}), theirs);
  EXPECT_EQ(resolve("org/data", {.repo_type = "dataset", .local_files_only = true}), data);
  EXPECT_EQ(resolve("org/tiny", {.files = {"*"}}), theirs);
  EXPECT_EQ(count("GET", "/resolve/"), 0U);
  EXPECT_EQ(count("GET", "/tree/"), 0U);  // their list of files serves us
}

TEST_F(HubPeerTest, WhatWeDownloadedTheyFindOffline) {
  const std::string ours = resolve("org/tiny", {.files = {"*"}});
  const std::string data = resolve("org/data", {.repo_type = "dataset"});
  forget_requests();
  EXPECT_EQ(their_snapshot("org/tiny", R"({"local_files_only": true})"), ours);
  EXPECT_EQ(their_snapshot("org/data", R"({"local_files_only": true, "repo_type": "dataset"})"), data);
  EXPECT_EQ(peer({"file", "org/tiny", "original/params.json", R"({"local_files_only": true})"}).at("path").as_string(),
            ours + "/original/params.json");
  EXPECT_EQ(their_snapshot("org/tiny"), ours);  // online they ask for the commit and have nothing to download
  EXPECT_EQ(count("GET", "/resolve/"), 0U);
  EXPECT_EQ(count("GET", "/tree/"), 0U);
}

TEST_F(HubPeerTest, BothSeeThatASnapshotIsNotComplete) {
  const std::string ours = resolve("org/tiny");
  EXPECT_EQ(peer({"snapshot", "org/tiny", R"({"local_files_only": true})"}).at("error").as_string(),
            "IncompleteSnapshotError");
  EXPECT_EQ(their_snapshot("org/tiny", R"({"local_files_only": true, "allow_patterns": ["config.json", "model*"]})"),
            ours);
  EXPECT_EQ(their_snapshot("org/tiny"), ours);  // online they fetch the rest
  EXPECT_EQ(resolve("org/tiny", {.files = {"*"}, .local_files_only = true}).string(), ours);
}

TEST_F(HubPeerTest, TheSameBlobsUnderTheSameNames) {
  resolve("org/tiny", {.files = {"*"}});
  const auto entries = [&](const fs::path& root) {
    std::vector<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(root)) {
      const std::string link = entry.is_symlink() ? " -> " + fs::read_symlink(entry.path()).string() : "";
      names.push_back(entry.path().lexically_relative(root).string() + link);
    }
    std::sort(names.begin(), names.end());
    return names;
  };
  const auto ours = entries(cache());
  fs::remove_all(cache());
  their_snapshot("org/tiny");
  EXPECT_THAT(entries(cache()), testing::ElementsAreArray(ours));
}

TEST_F(HubPeerTest, ASingleFileOfTheirsIsFoundWithoutAList) {
  const std::string theirs = peer({"file", "org/tiny", "config.json", "{}"}).at("path").as_string();
  EXPECT_EQ((resolve("org/tiny", {.files = {"config.json"}, .local_files_only = true}) / "config.json").string(),
            theirs);
  forget_requests();
  expect_same_files(resolve("org/tiny"), kModel, kLoaded);
  EXPECT_EQ(count("GET", "/config.json"), 0U);
}

TEST_F(HubPeerTest, BothKnowThatAFileIsAbsent) {
  EXPECT_EQ(peer({"file", "org/tiny", "vocab.txt", "{}"}).at("error").as_string(), "RemoteEntryNotFoundError");
  EXPECT_THAT(message_of([] { resolve("org/tiny", {.files = {"vocab.txt"}, .local_files_only = true}); }),
              testing::StartsWith("[hub] model \"org/tiny\" at \"main\" "));
  EXPECT_TRUE(fs::exists(repo_cache() / ".no_exist"));
}

TEST_F(HubPeerTest, TheyWaitForOurLockAndWeForTheirs) {
  fault(Json::object({{"match", "cdn GET"}, {"kind", "stall"}, {"after", 1'000}}));
  const std::string name = "model-00001-of-00002.safetensors";
  ForkedProcess ours([&] { resolve("org/tiny", {.files = {name}}); });
  ASSERT_TRUE(wait_until([&] { return count("GET", "/blob/") == 1; }));
  ChildProcess theirs({python(), reference_script("hub_peer.py"), "file", "org/tiny", name, "{}"});
  ASSERT_TRUE(wait_until([&] { return count("HEAD", "/resolve/") == 1; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // time for a race to show
  command(Json::object({{"do", "release"}}));
  EXPECT_EQ(ours.wait(), 0);
  EXPECT_TRUE(Json::parse(theirs.read_all()).contains("path"));
  EXPECT_EQ(count("GET", "/blob/"), 1U);

  fs::remove_all(cache());
  forget_requests();
  fault(Json::object({{"match", "cdn GET"}, {"kind", "stall"}, {"after", 1'000}}));
  ChildProcess first({python(), reference_script("hub_peer.py"), "file", "org/tiny", name, "{}"});
  ASSERT_TRUE(wait_until([&] { return count("GET", "/blob/") == 1; }));
  ForkedProcess second([&] { resolve("org/tiny", {.files = {name}}); });
  ASSERT_TRUE(wait_until([&] { return count("GET", "/tree/") == 1; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  command(Json::object({{"do", "release"}}));
  EXPECT_EQ(second.wait(), 0);
  EXPECT_TRUE(Json::parse(first.read_all()).contains("path"));
  EXPECT_EQ(count("GET", "/blob/"), 1U);
}

TEST_F(HubPeerTest, WhatWePushTheyDownload) {
  const TemporaryDirectory folder;
  write_file_atomically(folder / "config.json", "{}");
  write_file_atomically(folder / "model.safetensors", some_bytes(100'000));
  fs::create_directories(folder / "sub");
  write_file_atomically(folder / "sub/note.txt", "nested");
  for (const Json& chunk : {Json(), Json(30'000)}) {
    set_server(Json::object({{"chunk_size", chunk}}));
    const std::string repo = chunk.is_null() ? "org/whole" : "org/parts";
    upload_folder(folder.path(), repo, {.token = "hf_good"});
    const fs::path theirs = their_snapshot(repo);
    for (const char* name : {"config.json", "model.safetensors", "sub/note.txt"}) {
      EXPECT_TRUE(read_file(theirs / name) == read_file(folder / name)) << name;
    }
    EXPECT_EQ(fs::read_symlink(theirs / "model.safetensors"),
              "../../blobs/" + sha256_of_file(folder / "model.safetensors"));
  }
}

}  // namespace
}  // namespace easydel

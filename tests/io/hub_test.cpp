#include "easydel/io/hub/hub.h"

#include "easydel/core/build_info.h"
#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/io/hub/hash.h"
#include "tests/support/hub_fixture.h"

namespace easydel {
namespace {

namespace fs = std::filesystem;
using testing::StartsWith;
using testing::ThrowsMessage;
using testing::UnorderedElementsAre;

TEST(Resolve, ReturnsADirectoryAsItIs) {
  const TemporaryDirectory directory;
  EXPECT_EQ(resolve(directory.path().string()), directory.path());
  EXPECT_EQ(resolve("."), ".");
}

TEST(Resolve, RefusesWhatIsNeitherADirectoryNorAName) {
  const TemporaryDirectory directory;
  write_file_atomically(directory / "model.gguf", "x");
  EXPECT_EQ(resolve((directory / "model.gguf").string()), directory / "model.gguf");
  write_file_atomically(directory / "model.bin", "x");
  EXPECT_THAT([&] { resolve((directory / "model.bin").string()); },
              ThrowsMessage<ConfigError>("[hub] " + (directory / "model.bin").string() +
                                         " is a file; expected a directory, a .gguf file or a repository name."));
  EXPECT_THAT([] { resolve("./not/there"); },
              ThrowsMessage<ConfigError>(
                  "[hub] \"./not/there\" is neither a directory nor a repository name such as \"org/name\"."));
}

#if EASYDEL_HAS_CURL

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  return names;
}

using HubDownloadTest = TinyModelTest;

TEST_F(HubDownloadTest, DownloadsWhatALoaderReadsInTheLayoutOfHuggingFace) {
  const fs::path snapshot = resolve("org/tiny");
  EXPECT_EQ(snapshot, repo_cache() / "snapshots" / commit());
  expect_same_files(snapshot, kModel, kLoaded);
  EXPECT_FALSE(fs::exists(snapshot / "README.md"));
  EXPECT_FALSE(fs::exists(snapshot / "original"));
  EXPECT_EQ(read_file(repo_cache() / "refs/main"), commit());
  EXPECT_THAT(
      names_in(repo_cache() / "blobs"),
      UnorderedElementsAre(git_blob_hash(read_file(fixture(kModel) / "config.json")),
                           git_blob_hash(read_file(fixture(kModel) / "tokenizer.json")),
                           sha256("model-00001-of-00002.safetensors"), sha256("model-00002-of-00002.safetensors")));
  EXPECT_EQ(fs::read_symlink(snapshot / "config.json"),
            "../../blobs/" + git_blob_hash(read_file(fixture(kModel) / "config.json")));
  EXPECT_TRUE(
      fs::exists(cache() / ".locks/models--org--tiny" / (sha256("model-00001-of-00002.safetensors") + ".lock")));
  EXPECT_TRUE(fs::exists(cache() / "CACHEDIR.TAG"));
}

TEST_F(HubDownloadTest, AsksOnlyForWhatIsMissing) {
  resolve("org/tiny", {.files = {"config.json"}});
  EXPECT_EQ(count("GET", "/resolve/"), 1U);
  forget_requests();
  const fs::path snapshot = resolve("org/tiny", {.files = {"*.json"}});
  EXPECT_EQ(count("GET", "/resolve/"), 2U);
  EXPECT_EQ(count("GET", "/tree/"), 0U);
  expect_same_files(snapshot, kModel, {"config.json", "tokenizer.json", "original/params.json"});
  forget_requests();
  resolve("org/tiny", {.revision = commit(), .files = {"*.json"}});
  EXPECT_EQ(count("GET", "/"), 0U);  // a commit that is known never changes
}

TEST_F(HubDownloadTest, ReadsAListOfManyPages) {
  set_server(Json::object({{"page_size", 2}}));
  expect_same_files(resolve("org/tiny", {.files = {"*"}}), kModel, {"README.md", "original/params.json"});
  EXPECT_EQ(count("GET", "/tree/"), 4U);
}

TEST_F(HubDownloadTest, FindsDataSetsAndRevisions) {
  add_file("datasets/org/data", "train.jsonl", "{}\n");
  add_file("next", "config.json", "{\"version\": 2}");
  command(
      Json::object({{"do", "load"}, {"repo", "datasets/org/data"}, {"folder", fixture("datasets/org/data").string()}}));
  command(Json::object({{"do", "load"}, {"repo", kModel}, {"folder", fixture("next").string()}, {"branch", "a/b"}}));
  EXPECT_EQ(read_file(resolve("org/data", {.repo_type = "dataset"}) / "train.jsonl"), "{}\n");
  EXPECT_TRUE(fs::exists(cache() / "datasets--org--data/refs/main"));
  EXPECT_EQ(read_file(resolve("org/tiny", {.revision = "a/b"}) / "config.json"), "{\"version\": 2}");
  EXPECT_TRUE(fs::is_regular_file(repo_cache() / "refs/a/b"));
}

TEST_F(HubDownloadTest, FollowsABranchThatMoves) {
  const fs::path before = resolve("org/tiny");
  add_file(kModel, "config.json", "{\"version\": 2}");
  command(Json::object({{"do", "load"}, {"repo", kModel}, {"folder", fixture(kModel).string()}}));
  forget_requests();
  const fs::path after = resolve("org/tiny");
  EXPECT_NE(before, after);
  expect_same_files(after, kModel, kLoaded);
  EXPECT_EQ(count("GET", "/resolve/"), 1U);  // the other blobs are there
  EXPECT_EQ(read_file(before / "config.json"), R"({"model_type": "llama"})");
}

TEST_F(HubDownloadTest, SendsTheTokenOnlyToTheHub) {
  resolve("org/tiny", {.token = "hf_good"});
  const Json log = command(Json::object({{"do", "log"}}));
  ASSERT_GT(requests("GET", "/blob/", "cdn").size(), 0U);
  for (const Json& entry : log.as_array()) {
    const bool hub = entry.at("role").as_string() == "hub";
    EXPECT_EQ(entry.at("authorization"), hub ? Json("Bearer hf_good") : Json()) << entry.dump();
    EXPECT_THAT(entry.at("agent").as_string(), StartsWith("easydel/"));
  }
}

TEST_F(HubDownloadTest, DamagedBlobsAreFetchedAgain) {
  const fs::path snapshot = resolve("org/tiny");
  write_file_atomically(repo_cache() / "blobs" / sha256("model-00001-of-00002.safetensors"), "short");
  expect_same_files(resolve("org/tiny"), kModel, kLoaded);
}

TEST_F(HubDownloadTest, WorksOnACacheThatCannotBeWritten) {
  resolve("org/tiny");
  for (const char* name : {"refs", "trees", ".no_exist"}) {  // not even root writes into these now
    fs::remove_all(repo_cache() / name);
    write_file_atomically(repo_cache() / name, "");
  }
  expect_same_files(resolve("org/tiny"), kModel, kLoaded);
  EXPECT_THAT(message_of([] { resolve("org/tiny", {.files = {"vocab.txt"}}); }),
              StartsWith("[hub] model \"org/tiny\" at \"main\" has no file \"vocab.txt\""));
}

// Without a connection -----------------------------------------------------------------------------------------------

TEST_F(HubDownloadTest, OfflineUsesTheCacheAndAsksNobody) {
  const fs::path online = resolve("org/tiny");
  forget_requests();
  const ScopedVariable offline("HF_HUB_OFFLINE", "1");
  EXPECT_EQ(resolve("org/tiny"), online);
  EXPECT_EQ(resolve("org/tiny", {.revision = commit(), .files = {"*.safetensors"}}), online);
  EXPECT_EQ(count("GET", "/"), 0U);
}

TEST_F(HubDownloadTest, OfflineSaysWhatWasLookedForAndWhere) {
  const std::string advice =
      " Nothing is downloaded, because HF_HUB_OFFLINE is set. Unset it, or download on a connected machine and copy "
      "the cache.";
  {
    const ScopedVariable offline("HF_HUB_OFFLINE", "1");
    EXPECT_EQ(message_of([] { resolve("org/tiny"); }),
              "[hub] model \"org/tiny\" at \"main\" is not in the cache; looked for " +
                  (repo_cache() / "refs/main").string() + "." + advice);
    EXPECT_EQ(message_of([] { resolve("org/tiny", {.revision = std::string(40, 'a')}); }),
              "[hub] model \"org/tiny\" at \"" + std::string(40, 'a') + "\" is not in the cache; looked for " +
                  (repo_cache() / "snapshots" / std::string(40, 'a')).string() + "." + advice);
  }
  resolve("org/tiny", {.files = {"config.json"}});
  message_of([] { resolve("org/tiny", {.files = {"vocab.txt"}}); });
  const ScopedVariable offline("HF_HUB_OFFLINE", "1");
  EXPECT_EQ(
      message_of([] { resolve("org/tiny"); }),
      "[hub] model \"org/tiny\" at \"main\" is not complete in the cache; " +
          (repo_cache() / "snapshots" / commit()).string() +
          " lacks 3 of 4 files: model-00001-of-00002.safetensors, model-00002-of-00002.safetensors, tokenizer.json." +
          advice);
  EXPECT_EQ(
      message_of([] { resolve("org/tiny", {.files = {"vocab.txt"}}); }),
      "[hub] model \"org/tiny\" at \"main\" has no file \"vocab.txt\", according to the hub's last response." + advice);
  EXPECT_EQ(message_of([] { resolve("org/tiny", {.files = {"tokenizer.json"}, .local_files_only = true}); }),
            "[hub] model \"org/tiny\" at \"main\" is not complete in the cache; " +
                (repo_cache() / "snapshots" / commit()).string() +
                " lacks 1 of 1 files: tokenizer.json. Nothing is downloaded, because local_files_only is set.");
}

TEST_F(HubDownloadTest, ACompleteCacheServesWhenTheHubDoesNot) {
  const fs::path online = resolve("org/tiny");
  for (const Json& trouble : {Json::object({{"kind", "status"}, {"status", 503}}), Json::object({{"kind", "drop"}}),
                              Json::object({{"kind", "status"}, {"status", 401}})}) {
    forget_requests();
    fault_on("GET", trouble);
    const CapturedLog log;
    EXPECT_EQ(resolve("org/tiny"), online);
    EXPECT_EQ(count("GET", "/"), 1U);  // no retries for what is not needed
    ASSERT_EQ(log.warnings().size(), 1U);
    EXPECT_THAT(log.warnings()[0], testing::EndsWith(" Using the cached snapshot " + online.string() + "."));
  }
}

TEST_F(HubDownloadTest, ABrokenUpdateKeepsTheOldSnapshotUsable) {
  const fs::path before = resolve("org/tiny");
  add_file(kModel, "model-00001-of-00002.safetensors", some_bytes(300'000, 9));
  command(Json::object({{"do", "load"}, {"repo", kModel}, {"folder", fixture(kModel).string()}}));
  fault_on("cdn GET", Json::object({{"kind", "status"}, {"status", 403}}));
  message_of([] { resolve("org/tiny"); });
  EXPECT_EQ(resolve("org/tiny", {.local_files_only = true}), before);
}

TEST_F(HubDownloadTest, WithoutLinksTheSnapshotHoldsCopies) {
  const ScopedVariable no_links("HF_HUB_DISABLE_SYMLINKS", "1");
  const fs::path snapshot = resolve("org/tiny");
  EXPECT_FALSE(fs::is_symlink(snapshot / "config.json"));
  expect_same_files(snapshot, kModel, kLoaded);
}

TEST_F(HubDownloadTest, EmptyFilesAndOddNamesArrive) {
  add_file("models/org/odd", "empty.txt", "");
  add_file("models/org/odd", "empty.bin", "");
  add_file("models/org/odd", "a dir/100% é#?.json", "{}");
  add_file("models/org/odd", "same-1.bin", "twice");
  add_file("models/org/odd", "same-2.bin", "twice");
  command(Json::object({{"do", "load"}, {"repo", "models/org/odd"}, {"folder", fixture("models/org/odd").string()}}));
  expect_same_files(resolve("org/odd", {.files = {"*"}}), "models/org/odd",
                    {"empty.txt", "empty.bin", "a dir/100% é#?.json", "same-1.bin", "same-2.bin"});
}

#else

class WithoutCurl : public HubTest {};

TEST_F(WithoutCurl, SaysWhatToInstallAndStillReadsTheCache) {
  EXPECT_EQ(message_of([] { resolve("org/tiny"); }),
            "[hub] model \"org/tiny\" at \"main\" is not in " + cache().string() +
                ". [http] this build has no libcurl and cannot download; it reads only the local cache. Install "
                "libcurl4-openssl-dev, configure and build again.");
  const std::string commit(40, 'c');
  fs::create_directories(repo_cache() / "refs");
  fs::create_directories(repo_cache() / "snapshots" / commit);
  write_file_atomically(repo_cache() / "refs/main", commit);
  write_file_atomically(repo_cache() / "snapshots" / commit / "config.json", "{}");
  EXPECT_EQ(resolve("org/tiny"), repo_cache() / "snapshots" / commit);
}

#endif

}  // namespace
}  // namespace easydel

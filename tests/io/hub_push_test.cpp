#include "easydel/io/hub/hub_push.h"

#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/io/hub/hash.h"
#include "tests/support/hub_fixture.h"

namespace easydel {
namespace {

namespace fs = std::filesystem;
using testing::StartsWith;
using testing::ThrowsMessage;

class HubPushTest : public HubTest {
 protected:
  HubPushTest() : token_("HF_TOKEN", "hf_good") {
    start();
    write("config.json", "{}");
    write("README.md", "# Hi\n");
    write("sub/empty.bin", "");
    write("model.safetensors", some_bytes(100'000));
  }
  fs::path folder() const { return directory_ / "push"; }
  void write(const std::string& name, const std::string& content) {
    fs::create_directories((folder() / name).parent_path());
    write_file_atomically(folder() / name, content);
  }
  Json show(const std::string& repo = "models/org/new", const std::string& revision = "main") {
    return command(Json::object({{"do", "show"}, {"repo", repo}, {"revision", revision}}));
  }
  void expect_uploaded(const Json& files, const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      ASSERT_TRUE(files.contains(name)) << name;
      EXPECT_EQ(files.at(name).at("sha256").as_string(), sha256_of_file(folder() / name)) << name;
    }
  }

 private:
  ScopedVariable token_;
};

TEST_F(HubPushTest, CreatesTheRepositoryAndCommitsSmallAndLargeFiles) {
  const CommitInfo info =
      upload_folder(folder(), "org/new", {.commit_message = "First", .commit_description = "All of it"});
  const Json shown = show();
  expect_uploaded(shown.at("files"), {"config.json", "README.md", "sub/empty.bin", "model.safetensors"});
  EXPECT_TRUE(shown.at("files").at("model.safetensors").at("lfs").as_bool());
  EXPECT_FALSE(shown.at("files").at("config.json").at("lfs").as_bool());
  EXPECT_EQ(shown.at("message").as_string(), "First\nAll of it");
  EXPECT_EQ(info.commit, shown.at("commit").as_string());
  EXPECT_EQ(info.repo_url, endpoint() + "/org/new");
  EXPECT_EQ(info.commit_url, endpoint() + "/org/new/commit/" + info.commit);
  EXPECT_EQ(info.pull_request_url, "");
  EXPECT_FALSE(shown.at("private").as_bool());
  EXPECT_EQ(count("POST", "/verify"), 1U);
}

TEST_F(HubPushTest, SendsLargeFilesInParts) {
  for (const int64_t part : {30'000, 100'000, 99'999}) {
    const std::string repo = "org/parts" + std::to_string(part);
    forget_requests();
    set_server(Json::object({{"chunk_size", part}, {"storage", Json::object()}}));
    fault(Json::object({{"match", "cdn PUT"}, {"kind", "status"}, {"status", 500}}));
    upload_folder(folder(), repo);
    expect_uploaded(show("models/" + repo).at("files"), {"model.safetensors"});
    EXPECT_EQ(count("PUT", "/upload/"), static_cast<std::size_t>((100'000 + part - 1) / part) + 1);  // one was refused
  }
}

TEST_F(HubPushTest, TheTokenDoesNotLeaveTheHub) {
  upload_folder(folder(), "org/new");
  const Json puts = requests("PUT", "/upload/", "cdn");
  ASSERT_EQ(puts.size(), 1U);
  EXPECT_TRUE(puts.at(0).at("authorization").is_null());
  EXPECT_EQ(requests("POST", "/verify", "hub").at(0).at("authorization").as_string(), "Bearer hf_good");
}

TEST_F(HubPushTest, SendsAgainOnlyWhatChanged) {
  const CommitInfo first = upload_folder(folder(), "org/new");
  forget_requests();
  const CommitInfo same = upload_folder(folder(), "org/new");
  EXPECT_EQ(same.commit, first.commit);
  EXPECT_EQ(count("POST", "/commit/"), 0U);
  EXPECT_EQ(count("PUT", "/"), 0U);
  write("config.json", "{\"changed\": true}");
  const CommitInfo second = upload_folder(folder(), "org/new");
  EXPECT_NE(second.commit, first.commit);
  EXPECT_EQ(count("PUT", "/"), 0U);
  expect_uploaded(show().at("files"), {"config.json", "model.safetensors"});
}

TEST_F(HubPushTest, PrivateRepositoriesAndDataSets) {
  const CommitInfo info =
      upload_folder(folder(), "org/secret", {.repo_type = "dataset", .private_repo = true, .files = {"*.md"}});
  const Json shown = show("datasets/org/secret");
  EXPECT_TRUE(shown.at("private").as_bool());
  expect_uploaded(shown.at("files"), {"README.md"});
  EXPECT_FALSE(shown.at("files").contains("config.json"));
  EXPECT_EQ(info.repo_url, endpoint() + "/datasets/org/secret");
}

TEST_F(HubPushTest, ABareNameBecomesTheAccounts) {
  EXPECT_EQ(upload_folder(folder(), "mine").repo_id, "someone/mine");
  expect_uploaded(show("models/someone/mine").at("files"), {"config.json"});
}

TEST_F(HubPushTest, BranchesAndPullRequests) {
  upload_folder(folder(), "org/new");
  write("config.json", "{\"v\": 2}");
  upload_folder(folder(), "org/new", {.revision = "next/one"});
  EXPECT_EQ(show().at("files").at("config.json").at("size").as_int(), 2);
  expect_uploaded(show("models/org/new", "next/one").at("files"), {"config.json"});
  upload_folder(folder(), "org/new", {.revision = "next/one"});  // it exists now
  const CommitInfo pr = upload_folder(folder(), "org/new", {.create_pr = true});
  EXPECT_EQ(pr.pull_request_url, endpoint() + "/org/new/discussions/1");
  expect_uploaded(show("models/org/new", "refs/pr/1").at("files"), {"config.json"});
  EXPECT_EQ(show().at("files").at("config.json").at("size").as_int(), 2);
}

TEST_F(HubPushTest, SkipsWhatGitWouldIgnore) {
  write(".git/config", "x");
  write(".cache/huggingface/x", "x");
  write(".gitignore", "notes.txt");
  write("notes.txt", "private");
  upload_folder(folder(), "org/new");
  const Json files = show().at("files");
  for (const char* name : {".git/config", ".cache/huggingface/x", "notes.txt"})
    EXPECT_FALSE(files.contains(name)) << name;
  expect_uploaded(files, {".gitignore", "config.json"});
}

TEST_F(HubPushTest, RetriesTransientFailures) {
  for (const char* stage : {"POST /api/repos", "POST .*/preupload", "POST .*/batch", "cdn PUT", "POST .*/commit/"}) {
    fault(Json::object({{"match", stage}, {"kind", "status"}, {"status", 503}}));
  }
  fault(Json::object({{"match", "cdn PUT"}, {"kind", "drop"}}));
  upload_folder(folder(), "org/new");
  expect_uploaded(show().at("files"), {"config.json", "model.safetensors"});
  EXPECT_EQ(show().at("commits").as_int(), 2);
}

TEST_F(HubPushTest, DoesNotCommitTwice) {
  fault(Json::object({{"match", "POST .*/commit/"}, {"kind", "drop"}}));
  EXPECT_THROW(upload_folder(folder(), "org/new"), IoError);
  EXPECT_EQ(count("POST", "/commit/"), 1U);
}

TEST_F(HubPushTest, PushesWhatAFunctionSavesAndCleansUp) {
  fs::path used;
  const CommitInfo info = push_to_hub("org/saved", [&](const fs::path& where) {
    used = where;
    write_file_atomically(where / "config.json", "{}");
  });
  EXPECT_FALSE(fs::exists(used));
  EXPECT_TRUE(show("models/org/saved").at("files").contains("config.json"));
  EXPECT_EQ(info.repo_id, "org/saved");
}

TEST_F(HubPushTest, WithoutATemporaryDirectoryTheFilesStayAndOldOnesAreNotSent) {
  const fs::path before = fs::current_path();
  fs::current_path(directory_.path());
  fs::create_directories("kept");
  write_file_atomically("kept/old.txt", "was there before");
  const auto save = [](const fs::path& where) { write_file_atomically(where / "config.json", "{}"); };
  push_to_hub("org/kept", save);
  EXPECT_EQ(read_file("kept/config.json"), "{}");
  EXPECT_FALSE(show("models/org/kept").at("files").contains("old.txt"));
  EXPECT_TRUE(show("models/org/kept").at("files").contains("config.json"));
  push_to_hub("org/fresh", save, {.use_temp_dir = false});
  EXPECT_EQ(read_file("fresh/config.json"), "{}");
  EXPECT_EQ(message_of([] { push_to_hub("org/kept", [](const fs::path&) {}); }),
            "[hub] nothing was written into kept to upload.");
  fs::current_path(before);
}

// Each error with its full message --------------------------------------------------------------------------------

TEST_F(HubPushTest, NeedsATokenBeforeAnythingIsSaved) {
  bool saved = false;
  EXPECT_EQ(
      message_of([&] { push_to_hub("org/new", [&](const fs::path&) { saved = true; }, {.token = ""}); }),
      "[hub] an upload to model \"org/new\" at \"main\" needs a token with write access. Set HF_TOKEN, or pass one.");
  EXPECT_FALSE(saved);
  const ScopedVariable offline("HF_HUB_OFFLINE", "1");
  EXPECT_EQ(message_of([&] { upload_folder(folder(), "org/new"); }),
            "[hub] nothing can be uploaded to model \"org/new\" at \"main\", because HF_HUB_OFFLINE is set. Unset it.");
}

TEST_F(HubPushTest, NamesAMissingOrEmptyFolder) {
  EXPECT_EQ(message_of([&] { upload_folder(directory_ / "none", "org/new"); }),
            "[hub] the source of an upload must be a directory; got " + (directory_ / "none").string() + ".");
  fs::create_directories(directory_ / "empty");
  EXPECT_EQ(message_of([&] { upload_folder(directory_ / "empty", "org/new"); }),
            "[hub] " + (directory_ / "empty").string() + " contains no files to upload.");
}

TEST_F(HubPushTest, ATokenThatMayNotWrite) {
  EXPECT_EQ(
      message_of([&] { upload_folder(folder(), "org/new", {.token = "hf_bad"}); }),
      "[hub] model \"org/new\" at \"main\" is private, gated or does not exist; got 401 (Invalid username or password) "
      "from " +
          endpoint() + ". Set HF_TOKEN to a token that can write to it, or check the name.");
}

TEST_F(HubPushTest, ALargeFileThatIsRefused) {
  fault(Json::object({{"match", "^lfs "}, {"status", 422}, {"message", "too large"}}));
  EXPECT_EQ(message_of([&] { upload_folder(folder(), "org/new"); }),
            "[hub] \"model.safetensors\" of model \"org/new\" at \"main\" was refused; got 422 (too large) from " +
                endpoint() + ".");
  fault(Json::object({{"match", "cdn PUT"}, {"kind", "status"}, {"status", 403}, {"message", "expired"}}));
  EXPECT_EQ(message_of([&] { upload_folder(folder(), "org/new"); }),
            "[hub] \"model.safetensors\" of model \"org/new\" at \"main\": the storage server refused the request; got "
            "403 (expired) from " +
                storage() + ". Try again; a firewall may block it.");
}

TEST_F(HubPushTest, ACommitThatIsRefused) {
  fault(Json::object({{"match", "POST .*/commit/"}, {"kind", "status"}, {"status", 400}, {"message", "bad metadata"}}));
  EXPECT_EQ(message_of([&] { upload_folder(folder(), "org/new"); }),
            "[hub] model \"org/new\" at \"main\": the request was refused; got 400 (bad metadata) from " + endpoint() +
                ". Nothing was committed.");
}

TEST_F(HubPushTest, AServerThatAsksForImpossibleParts) {
  const auto answer = [&](const std::string& header) {
    const std::string oid = sha256_of_file(folder() / "model.safetensors");
    fault(Json::object(
        {{"match", "POST .*/batch"},
         {"kind", "body"},
         {"body", R"({"objects": [{"oid": ")" + oid + R"(", "size": 100000, "actions": {"upload": {"href": ")" +
                      endpoint() + R"(/x", "header": )" + header + "}}}]}"}}));
    return message_of([&] { upload_folder(folder(), "org/new"); });
  };
  const std::string start = "[hub] \"model.safetensors\" of model \"org/new\" at \"main\" cannot be uploaded: ";
  EXPECT_EQ(answer(R"({"chunk_size": "0"})"), start + "the server requests parts of \"0\" bytes.");
  EXPECT_EQ(answer(R"({"chunk_size": "60000", "1": "http://127.0.0.1:1/x"})"),
            start + "100000 bytes make 2 parts of 60000; the server has URLs for 1.");
  set_server(Json::object({{"chunk_size", 60'000}}));
  fault(Json::object({{"match", "cdn PUT"}, {"kind", "no_etag"}}));
  EXPECT_EQ(message_of([&] { upload_folder(folder(), "org/new"); }), start + "the server took part 1 without an ETag.");
}

TEST_F(HubPushTest, AServerThatAnswersForOtherFiles) {
  fault(Json::object({{"match", "POST .*/preupload"}, {"kind", "body"}, {"body", R"({"files": []})"}}));
  EXPECT_EQ(message_of([&] { upload_folder(folder(), "org/new"); }),
            "[hub] model \"org/new\" at \"main\": the server responded for 0 of 4 files.");
  fault(Json::object(
      {{"match", "POST .*/batch"}, {"kind", "body"}, {"body", R"({"objects": [{"oid": "abc", "size": 1}]})"}}));
  EXPECT_EQ(message_of([&] { upload_folder(folder(), "org/new"); }),
            "[hub] model \"org/new\" at \"main\": the server responded for \"abc\", which was not asked about.");
}

}  // namespace
}  // namespace easydel

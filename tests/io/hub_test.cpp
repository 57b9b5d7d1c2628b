#include "easydel/io/hub.h"

#include <sys/stat.h>
#include <unistd.h>

#include "easydel/core/build_info.h"
#include "easydel/core/error.h"
#include "easydel/core/file.h"
#include "easydel/io/hash.h"
#include "tests/support/file_size_limit.h"
#include "tests/support/hub_fixture.h"

namespace easydel {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
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
  EXPECT_THAT([&] { resolve((directory / "model.gguf").string()); },
              ThrowsMessage<ConfigError>("[hub] " + (directory / "model.gguf").string() +
                                         " is a file; a directory or the name of a repository is needed."));
  EXPECT_THAT(
      [] { resolve("./not/there"); },
      ThrowsMessage<ConfigError>("[hub] \"./not/there\" is neither a directory nor the name of a repository, which "
                                 "is \"org/name\"."));
}

#if EASYDEL_HAS_CURL

constexpr const char* kModel = "models/org/tiny";
const std::vector<std::string> kLoaded = {"config.json", "tokenizer.json", "model-00001-of-00002.safetensors",
                                          "model-00002-of-00002.safetensors"};

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  return names;
}

class HubDownloadTest : public HubTest {
 protected:
  HubDownloadTest() {
    add_small_model();
    start();
  }
  std::string commit() { return command(Json::object({{"do", "show"}, {"repo", kModel}})).at("commit").as_string(); }
  std::string sha256(const std::string& name) { return sha256_of_file(fixture(kModel) / name); }
  void fault_on(const std::string& match, Json more) {
    more["match"] = match;
    fault(std::move(more));
  }
  // The end of each message that comes from the hub.
  std::string from() { return " from " + endpoint() + ". "; }
};

TEST_F(HubDownloadTest, BringsWhatALoaderReadsInTheLayoutOfHuggingFace) {
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

// What goes wrong on the way -----------------------------------------------------------------------------------------

TEST_F(HubDownloadTest, GoesOnWhereTheConnectionWasCut) {
  fault_on("cdn GET", Json::object({{"kind", "cut"}, {"after", 100'000}}));
  fault_on("cdn GET", Json::object({{"kind", "cut"}, {"after", 50'000}}));
  const std::string name = "model-00001-of-00002.safetensors";
  expect_same_files(resolve("org/tiny", {.files = {name}}), kModel, {name});
  const Json gets = requests("GET", "/blob/");
  ASSERT_EQ(gets.size(), 3U);
  EXPECT_EQ(gets.at(1).at("range").as_string(), "bytes=100000-");
  EXPECT_EQ(gets.at(2).at("range").as_string(), "bytes=150000-");
}

TEST_F(HubDownloadTest, ADownloadThatGetsOnIsNeverGivenUp) {
  fault_on("cdn GET", Json::object({{"kind", "cut"}, {"after", 20'000}, {"times", 14}}));
  const std::string name = "model-00001-of-00002.safetensors";
  expect_same_files(resolve("org/tiny", {.files = {name}, .retry = RetryPolicy{.max_retries = 1, .base_delay = 0}}),
                    kModel, {name});
  EXPECT_EQ(count("GET", "/blob/"), 15U);
}

TEST_F(HubDownloadTest, StartsAnewWhenTheServerKnowsNoRanges) {
  fault_on("cdn GET", Json::object({{"kind", "cut"}, {"after", 100'000}}));
  fault_on("cdn GET", Json::object({{"kind", "no_range"}}));
  const std::string name = "model-00001-of-00002.safetensors";
  expect_same_files(resolve("org/tiny", {.files = {name}}), kModel, {name});
}

TEST_F(HubDownloadTest, GoesOnFromWhatAnEarlierProcessLeft) {
  const std::string name = "model-00001-of-00002.safetensors";
  fs::create_directories(repo_cache() / "blobs");
  const fs::path partial = repo_cache() / "blobs" / (sha256(name) + ".incomplete");
  write_file_atomically(partial, read_file(fixture(kModel) / name).substr(0, 123'456));
  expect_same_files(resolve("org/tiny", {.files = {name}}), kModel, {name});
  EXPECT_EQ(requests("GET", "/blob/").at(0).at("range").as_string(), "bytes=123456-");
  EXPECT_FALSE(fs::exists(partial));
}

TEST_F(HubDownloadTest, NeedsNoRequestForABlobThatOnlyLacksItsName) {
  const std::string name = "model-00001-of-00002.safetensors";
  fs::create_directories(repo_cache() / "blobs");
  write_file_atomically(repo_cache() / "blobs" / (sha256(name) + ".incomplete"), read_file(fixture(kModel) / name));
  expect_same_files(resolve("org/tiny", {.files = {name}}), kModel, {name});
  EXPECT_EQ(count("GET", "/resolve/"), 0U);
}

TEST_F(HubDownloadTest, ThrowsAwayALeftoverThatIsWrong) {
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

TEST_F(HubDownloadTest, FetchesOnceMoreWhenTheHashIsWrong) {
  const CapturedLog log;
  fault_on("cdn GET", Json::object({{"kind", "corrupt"}}));
  fault_on("hub GET .*config.json", Json::object({{"kind", "corrupt"}}));
  expect_same_files(resolve("org/tiny", {.files = {"config.json", "model-00001-of-00002.safetensors"}}), kModel,
                    {"config.json", "model-00001-of-00002.safetensors"});
  EXPECT_THAT(
      log.warnings(),
      UnorderedElementsAre("[hub] \"config.json\" of model \"org/tiny\" at \"main\" came with a wrong hash; it is "
                           "fetched once more.",
                           "[hub] \"model-00001-of-00002.safetensors\" of model \"org/tiny\" at \"main\" came with "
                           "a wrong hash; it is fetched once more."));
}

TEST_F(HubDownloadTest, RefusesAHashThatStaysWrong) {
  const CapturedLog log;
  const std::string name = "model-00001-of-00002.safetensors";
  std::string wrong = read_file(fixture(kModel) / name);
  wrong[0] ^= 1;
  fault_on("cdn GET", Json::object({{"kind", "corrupt"}, {"times", -1}}));
  EXPECT_THAT([&] { resolve("org/tiny", {.files = {name}}); },
              ThrowsMessage<FormatError>(
                  "[hub] \"" + name + "\" of model \"org/tiny\" at \"main\" must have the SHA-256 " + sha256(name) +
                  "; what came has " + sha256_hex(wrong) + ". Try again, or check HF_ENDPOINT."));
  std::string config = read_file(fixture(kModel) / "config.json");
  const std::string right = git_blob_hash(config);
  config[0] ^= 1;
  fault_on("hub GET .*config.json", Json::object({{"kind", "corrupt"}, {"times", -1}}));
  EXPECT_THAT([&] { resolve("org/tiny", {.files = {"config.json"}}); },
              ThrowsMessage<FormatError>(
                  "[hub] \"config.json\" of model \"org/tiny\" at \"main\" must have the git SHA-1 " + right +
                  "; what came has " + git_blob_hash(config) + ". Try again, or check HF_ENDPOINT."));
  EXPECT_FALSE(fs::exists(repo_cache() / "snapshots" / commit() / name));
  forget_requests();
  expect_same_files(resolve("org/tiny"), kModel, kLoaded);  // nothing is left that would break this
}

TEST_F(HubDownloadTest, RefusesAnotherSizeBeforeItIsDownloaded) {
  const std::string name = "model-00001-of-00002.safetensors";
  for (const int64_t length : {299'999, 300'001}) {
    fault_on("cdn GET", Json::object({{"kind", "length"}, {"length", length}}));
    EXPECT_EQ(message_of([&] { resolve("org/tiny", {.files = {name}}); }),
              "[hub] \"" + name + "\" of model \"org/tiny\" at \"main\" must have 300000 bytes; the server sends " +
                  std::to_string(length) + ". Try again, or check HF_ENDPOINT.");
  }
  expect_same_files(resolve("org/tiny", {.files = {name}}), kModel, {name});
}

TEST_F(HubDownloadTest, RefusesAnotherRangeThanItAskedFor) {
  const std::string name = "model-00001-of-00002.safetensors";
  fault_on("cdn GET", Json::object({{"kind", "cut"}, {"after", 100'000}}));
  fault_on("cdn GET", Json::object({{"kind", "wrong_range"}}));
  EXPECT_EQ(message_of([&] { resolve("org/tiny", {.files = {name}}); }),
            "[hub] \"" + name +
                "\" of model \"org/tiny\" at \"main\" was asked for from byte 100000; the server sent bytes "
                "0-299999/300000.");
  expect_same_files(resolve("org/tiny", {.files = {name}}), kModel, {name});
}

TEST_F(HubDownloadTest, RetriesWhatIsTransientAtEachStage) {
  for (const char* stage : {"GET .*/revision/", "GET .*/tree/", "hub GET .*/resolve/", "cdn GET"}) {
    fs::remove_all(cache());
    fault_on(stage, Json::object({{"kind", "status"}, {"status", 503}}));
    fault_on(stage, Json::object({{"kind", "drop"}}));
    expect_same_files(resolve("org/tiny"), kModel, kLoaded);
  }
}

TEST_F(HubDownloadTest, OneFailureStopsTheOthersAndIsTheOneThatIsTold) {
  fault_on("cdn GET", Json::object({{"kind", "stall"}, {"after", 10}, {"times", 1}}));
  fault_on("hub GET .*config.json", Json::object({{"kind", "status"}, {"status", 403}}));
  EXPECT_THAT(message_of([&] { resolve("org/tiny"); }), StartsWith("[hub] \"config.json\" of model"));
  command(Json::object({{"do", "release"}}));
}

// Each refusal with its whole message --------------------------------------------------------------------------------

TEST_F(HubDownloadTest, PrivateWithoutAToken) {
  set_repo(kModel, Json::object({{"private", true}}));
  EXPECT_EQ(message_of([] { resolve("org/tiny"); }),
            "[hub] model \"org/tiny\" at \"main\" is private, gated or does not exist; got 401 (Invalid username or "
            "password)" +
                from() + "Set HF_TOKEN to a token that may read it, or check the name.");
  const ScopedVariable token("HF_TOKEN", "hf_good");
  expect_same_files(resolve("org/tiny"), kModel, kLoaded);
}

TEST_F(HubDownloadTest, AWrongToken) {
  EXPECT_EQ(message_of([] { resolve("org/tiny", {.token = "hf_bad"}); }),
            "[hub] model \"org/tiny\" at \"main\" is private, gated or does not exist; got 401 (Invalid credentials in "
            "Authorization header)" +
                from() + "Set HF_TOKEN to a token that may read it, or check the name.");
}

TEST_F(HubDownloadTest, Gated) {
  set_repo(kModel, Json::object({{"gated", "manual"}}));
  EXPECT_EQ(message_of([] { resolve("org/tiny", {.files = {"config.json"}}); }),
            "[hub] \"config.json\" of model \"org/tiny\" at \"main\" is gated; got 403 (Access to this repository is "
            "restricted)" +
                from() + "Accept its terms at " + endpoint() +
                "/org/tiny and set HF_TOKEN to a token of that account.");
}

TEST_F(HubDownloadTest, NoSuchRepository) {
  EXPECT_EQ(message_of([] { resolve("org/nope", {.token = "hf_good"}); }),
            "[hub] model \"org/nope\" at \"main\" was not found; got 404 (Repository not found)" + from() +
                "Check the name and the repo_type; a private repository needs HF_TOKEN.");
}

TEST_F(HubDownloadTest, NoSuchRevision) {
  EXPECT_EQ(message_of([] { resolve("org/tiny", {.revision = "v9"}); }),
            "[hub] model \"org/tiny\" has no revision \"v9\"; got 404 (Invalid rev id: v9)" + from() +
                "Its branches and tags are listed at " + endpoint() + "/org/tiny/tree/main.");
}

TEST_F(HubDownloadTest, NoSuchFile) {
  EXPECT_EQ(
      message_of([] { resolve("org/tiny", {.files = {"vocab.txt"}}); }),
      "[hub] model \"org/tiny\" at \"main\" has no file \"vocab.txt\"; it has 6 files: README.md, config.json, "
      "model-00001-of-00002.safetensors, model-00002-of-00002.safetensors, original/params.json, tokenizer.json.");
  EXPECT_TRUE(fs::is_regular_file(repo_cache() / ".no_exist" / commit() / "vocab.txt"));
}

TEST_F(HubDownloadTest, AFileThatIsListedAndNotThere) {
  fault_on("hub GET .*config.json", Json::object({{"kind", "status"}, {"status", 404}, {"code", "EntryNotFound"}}));
  EXPECT_EQ(message_of([] { resolve("org/tiny", {.files = {"config.json"}}); }),
            "[hub] model \"org/tiny\" at \"main\" has no file \"config.json\"; got 404" + from() + "Look at " +
                endpoint() + "/org/tiny.");
}

TEST_F(HubDownloadTest, Forbidden) {
  fault_on("GET .*/revision/", Json::object({{"kind", "status"}, {"status", 403}, {"message", "wrong scope"}}));
  EXPECT_EQ(message_of([] { resolve("org/tiny"); }),
            "[hub] model \"org/tiny\" at \"main\" is forbidden; got 403 (wrong scope)" + from() +
                "Set HF_TOKEN to a token that may read it.");
}

TEST_F(HubDownloadTest, AStorageThatRefuses) {
  fault_on("cdn GET", Json::object({{"kind", "status"}, {"status", 403}}));
  EXPECT_EQ(
      message_of([] { resolve("org/tiny", {.files = {"model-00001-of-00002.safetensors"}}); }),
      "[hub] \"model-00001-of-00002.safetensors\" of model \"org/tiny\" at \"main\": the storage refuses it; got 403 "
      "from " +
          storage() + ". Try again; a firewall may block it.");
}

TEST_F(HubDownloadTest, AnEndpointThatIsNone) {
  EXPECT_EQ(message_of([] { resolve("org/tiny", {.endpoint = "hub.example"}); }),
            "[hub] HF_ENDPOINT must be a URL that begins with http:// or https://; got \"hub.example\".");
}

TEST_F(HubDownloadTest, AFullDiskKeepsWhatCame) {
  const std::string name = "model-00001-of-00002.safetensors";
  const fs::path partial = repo_cache() / "blobs" / (sha256(name) + ".incomplete");
  {
    const FileSizeLimit full(100'000);
    EXPECT_EQ(message_of([&] { resolve("org/tiny", {.files = {name}}); }),
              "[hub] cannot write " + partial.string() +
                  " after 100000 bytes: File too large. What is there is kept, and the next try goes on from it.");
  }
  forget_requests();
  expect_same_files(resolve("org/tiny", {.files = {name}}), kModel, {name});
  EXPECT_EQ(requests("GET", "/blob/").at(0).at("range").as_string(), "bytes=100000-");
}

TEST_F(HubDownloadTest, TooManyRequests) {
  fault_on("GET", Json::object({{"kind", "status"}, {"status", 429}, {"times", -1}}));
  EXPECT_EQ(message_of([] { resolve("org/tiny"); }),
            "[hub] model \"org/tiny\" at \"main\": too many requests; got 429" + from() +
                "Wait, or set HF_TOKEN for a higher limit.");
  EXPECT_EQ(count("GET", "/"), 6U);
}

TEST_F(HubDownloadTest, AServerThatFails) {
  fault_on("cdn GET",
           Json::object({{"kind", "status"}, {"status", 500}, {"message", "out\nof order\x1b[31m"}, {"times", -1}}));
  EXPECT_EQ(message_of([] { resolve("org/tiny", {.files = {"model-00001-of-00002.safetensors"}}); }),
            "[hub] \"model-00001-of-00002.safetensors\" of model \"org/tiny\" at \"main\": the server failed; got 500 "
            "(out of "
            "order [31m) from " +
                storage() + ". Try again later.");
}

TEST_F(HubDownloadTest, AnyOtherStatus) {
  fault_on("GET .*/revision/", Json::object({{"kind", "status"}, {"status", 418}, {"message", "a teapot"}}));
  EXPECT_EQ(message_of([] { resolve("org/tiny"); }),
            "[hub] model \"org/tiny\" at \"main\": the request was refused; got 418 (a teapot)" + from() +
                "Check HF_ENDPOINT.");
}

TEST_F(HubDownloadTest, NoServer) {
  // A port that was free a moment ago: of a server that is gone.
  EXPECT_THAT(message_of([] {
                resolve("org/tiny", {.endpoint = "http://127.0.0.1:1", .retry = RetryPolicy{.max_retries = 0}});
              }),
              StartsWith("[http] GET http://127.0.0.1:1/api/models/org/tiny/revision/main: "));
}

TEST_F(HubDownloadTest, AServerThatIsNoHub) {
  fault_on("GET .*/revision/", Json::object({{"kind", "body"}, {"body", "<html>"}, {"times", 1}}));
  EXPECT_THAT(message_of([] { resolve("org/tiny"); }), HasSubstr("/api/models/org/tiny/revision/main"));
  fault_on("GET .*/revision/", Json::object({{"kind", "body"}, {"body", "{\"sha\": \"../../x\"}"}}));
  EXPECT_EQ(
      message_of([] { resolve("org/tiny"); }),
      "[hub] model \"org/tiny\" at \"main\": a commit is 40 hexadecimal digits; the server sent \"../../x\". Is " +
          endpoint() + " a Hugging Face hub?");
}

TEST_F(HubDownloadTest, RefusesNamesThatClimbOut) {
  const std::string sha(40, 'a');
  for (const char* name : {"../../../evil", "/etc/evil", "a/../../evil", "a\\..\\evil"}) {
    set_repo(
        kModel,
        Json::object({{"extra_entries",
                       Json::array({Json::object({{"type", "file"}, {"path", name}, {"size", 1}, {"oid", sha}})})}}));
    EXPECT_EQ(message_of([] { resolve("org/tiny", {.files = {"*"}}); }),
              std::string("[hub] model \"org/tiny\" at \"main\" lists a file that is not inside it: \"") + name +
                  "\". Nothing was downloaded.");
  }
  EXPECT_EQ(count("GET", "/resolve/"), 0U);
  set_repo(kModel,
           Json::object(
               {{"extra_entries",
                 Json::array({Json::object({{"type", "file"}, {"path", "x"}, {"size", 1}, {"oid", "../../evil"}})})}}));
  EXPECT_EQ(
      message_of([] { resolve("org/tiny"); }),
      "[hub] model \"org/tiny\" at \"main\" lists \"x\" without a proper hash or size; got oid \"../../evil\" and size "
      "1.");
}

TEST_F(HubDownloadTest, RefusesAListThatGoesOnElsewhere) {
  fault_on("GET .*/tree/", Json::object({{"kind", "redirect"}, {"status", 200}, {"location", "x"}}));
  EXPECT_THAT(message_of([] { resolve("org/tiny"); }), HasSubstr("/tree/"));  // an empty body is no list
  set_server(Json::object({{"page_size", 2}, {"endpoint", "http://127.0.0.1:1"}}));
  EXPECT_THAT(
      message_of([] { resolve("org/tiny"); }),
      StartsWith("[hub] model \"org/tiny\" at \"main\": the list of files does not end, or goes on at another server: "
                 "http://127.0.0.1:1/api/models/org/tiny/tree/"));
}

TEST_F(HubDownloadTest, ACacheThatCannotBeMade) {
  write_file_atomically(directory_ / "file", "x");
  const fs::path blobs = directory_ / "file/models--org--tiny/blobs";
  EXPECT_EQ(message_of([&] { resolve("org/tiny", {.cache_dir = directory_ / "file"}); }),
            "[hub] cannot make " + blobs.string() +
                ": Not a directory. Set HF_HUB_CACHE to a directory that can be written.");
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
      " Nothing is downloaded, since HF_HUB_OFFLINE is set. Unset it, or download on a machine that has a connection "
      "and "
      "copy the cache.";
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
  EXPECT_EQ(message_of([] { resolve("org/tiny", {.files = {"vocab.txt"}}); }),
            "[hub] model \"org/tiny\" at \"main\" has no file \"vocab.txt\"; so the hub said when it was last asked." +
                advice);
  EXPECT_EQ(message_of([] { resolve("org/tiny", {.files = {"tokenizer.json"}, .local_files_only = true}); }),
            "[hub] model \"org/tiny\" at \"main\" is not complete in the cache; " +
                (repo_cache() / "snapshots" / commit()).string() +
                " lacks 1 of 1 files: tokenizer.json. Nothing is downloaded, since local_files_only is set.");
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
    EXPECT_THAT(log.warnings()[0], testing::EndsWith(" What the cache holds is used: " + online.string() + "."));
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
  EXPECT_EQ(
      message_of([] { resolve("org/tiny"); }),
      "[hub] model \"org/tiny\" at \"main\" is not in " + cache().string() +
          ". [http] this build has no libcurl and can reach no server; it reads only what the cache holds. Install "
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

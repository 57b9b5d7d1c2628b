// Each error of a hub, or of a server that is not a hub, with its full message.
#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "tests/support/hub_fixture.h"

namespace easydel {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::StartsWith;

using HubErrorsTest = TinyModelTest;

TEST_F(HubErrorsTest, PrivateWithoutAToken) {
  set_repo(kModel, Json::object({{"private", true}}));
  EXPECT_EQ(
      message_of([] { resolve("org/tiny"); }),
      "[hub] model \"org/tiny\" at \"main\" is private, gated or does not exist; got 401 (Invalid username or "
      "password)" +
          from() +
          "Set HF_TOKEN to a token that can read it, or check the name. No local directory has that name either.");
  const ScopedVariable token("HF_TOKEN", "hf_good");
  expect_same_files(resolve("org/tiny"), kModel, kLoaded);
}

TEST_F(HubErrorsTest, AWrongToken) {
  EXPECT_EQ(message_of([] { resolve("org/tiny", {.token = "hf_bad"}); }),
            "[hub] model \"org/tiny\" at \"main\" is private, gated or does not exist; got 401 (Invalid credentials in "
            "Authorization header)" +
                from() + "Set HF_TOKEN to a token that can read it, or check the name.");
}

TEST_F(HubErrorsTest, Gated) {
  set_repo(kModel, Json::object({{"gated", "manual"}}));
  EXPECT_EQ(message_of([] { resolve("org/tiny", {.files = {"config.json"}}); }),
            "[hub] \"config.json\" of model \"org/tiny\" at \"main\" is gated; got 403 (Access to this repository is "
            "restricted)" +
                from() + "Accept its terms at " + endpoint() +
                "/org/tiny and set HF_TOKEN to a token of your account.");
}

TEST_F(HubErrorsTest, NoSuchRepository) {
  EXPECT_EQ(message_of([] { resolve("org/nope", {.token = "hf_good"}); }),
            "[hub] model \"org/nope\" at \"main\" was not found; got 404 (Repository not found)" + from() +
                "Check the name and the repo_type; a private repository needs HF_TOKEN. No local directory has that "
                "name either.");
}

TEST_F(HubErrorsTest, NoSuchRevision) {
  EXPECT_EQ(message_of([] { resolve("org/tiny", {.revision = "v9"}); }),
            "[hub] model \"org/tiny\" has no revision \"v9\"; got 404 (Invalid rev id: v9)" + from() +
                "Its branches and tags are listed at " + endpoint() + "/org/tiny/tree/main.");
}

TEST_F(HubErrorsTest, NoSuchFile) {
  EXPECT_EQ(
      message_of([] { resolve("org/tiny", {.files = {"vocab.txt"}}); }),
      "[hub] model \"org/tiny\" at \"main\" has no file \"vocab.txt\"; it has 6 files: README.md, config.json, "
      "model-00001-of-00002.safetensors, model-00002-of-00002.safetensors, original/params.json, tokenizer.json.");
  EXPECT_TRUE(fs::is_regular_file(repo_cache() / ".no_exist" / commit() / "vocab.txt"));
}

TEST_F(HubErrorsTest, AListedFileThatIsMissing) {
  fault_on("hub GET .*config.json", Json::object({{"kind", "status"}, {"status", 404}, {"code", "EntryNotFound"}}));
  EXPECT_EQ(message_of([] { resolve("org/tiny", {.files = {"config.json"}}); }),
            "[hub] model \"org/tiny\" at \"main\" has no file \"config.json\"; got 404" + from() + "Look at " +
                endpoint() + "/org/tiny.");
}

TEST_F(HubErrorsTest, Forbidden) {
  fault_on("GET .*/revision/", Json::object({{"kind", "status"}, {"status", 403}, {"message", "wrong scope"}}));
  EXPECT_EQ(message_of([] { resolve("org/tiny"); }),
            "[hub] model \"org/tiny\" at \"main\" is forbidden; got 403 (wrong scope)" + from() +
                "Set HF_TOKEN to a token that can read it.");
}

TEST_F(HubErrorsTest, AStorageThatRefuses) {
  fault_on("cdn GET", Json::object({{"kind", "status"}, {"status", 403}}));
  EXPECT_EQ(message_of([] { resolve("org/tiny", {.files = {"model-00001-of-00002.safetensors"}}); }),
            "[hub] \"model-00001-of-00002.safetensors\" of model \"org/tiny\" at \"main\": the storage server refused "
            "the request; got 403 "
            "from " +
                storage() + ". Try again; a firewall may block it.");
}

TEST_F(HubErrorsTest, AnInvalidEndpoint) {
  EXPECT_EQ(message_of([] { resolve("org/tiny", {.endpoint = "hub.example"}); }),
            "[hub] HF_ENDPOINT must be a URL that begins with http:// or https://; got \"hub.example\".");
}

TEST_F(HubErrorsTest, TooManyRequests) {
  fault_on("GET", Json::object({{"kind", "status"}, {"status", 429}, {"times", -1}}));
  EXPECT_EQ(message_of([] { resolve("org/tiny"); }),
            "[hub] model \"org/tiny\" at \"main\": too many requests; got 429" + from() +
                "Wait, or set HF_TOKEN for a higher limit.");
  EXPECT_EQ(count("GET", "/"), 6U);
}

TEST_F(HubErrorsTest, AServerThatFails) {
  fault_on("cdn GET",
           Json::object({{"kind", "status"}, {"status", 500}, {"message", "out\nof order\x1b[31m"}, {"times", -1}}));
  EXPECT_EQ(message_of([] { resolve("org/tiny", {.files = {"model-00001-of-00002.safetensors"}}); }),
            "[hub] \"model-00001-of-00002.safetensors\" of model \"org/tiny\" at \"main\": the server failed; got 500 "
            "(out of "
            "order [31m) from " +
                storage() + ". Try again later.");
}

TEST_F(HubErrorsTest, AnyOtherStatus) {
  fault_on("GET .*/revision/", Json::object({{"kind", "status"}, {"status", 418}, {"message", "a teapot"}}));
  EXPECT_EQ(message_of([] { resolve("org/tiny"); }),
            "[hub] model \"org/tiny\" at \"main\": the request was refused; got 418 (a teapot)" + from() +
                "Check HF_ENDPOINT.");
}

TEST_F(HubErrorsTest, NoServer) {
  // A port that was free a moment ago: of a server that is gone.
  EXPECT_THAT(message_of([] {
                resolve("org/tiny", {.endpoint = "http://127.0.0.1:1", .retry = RetryPolicy{.max_retries = 0}});
              }),
              StartsWith("[hub] directory \"org/tiny\" does not exist, and the hub does not respond: [http] GET "
                         "http://127.0.0.1:1/api/models/org/tiny/revision/main: "));
}

TEST_F(HubErrorsTest, AServerThatIsNotAHub) {
  fault_on("GET .*/revision/", Json::object({{"kind", "body"}, {"body", "<html>"}, {"times", 1}}));
  EXPECT_THAT(message_of([] { resolve("org/tiny"); }), HasSubstr("/api/models/org/tiny/revision/main"));
  fault_on("GET .*/revision/", Json::object({{"kind", "body"}, {"body", "{\"sha\": \"../../x\"}"}}));
  EXPECT_EQ(
      message_of([] { resolve("org/tiny"); }),
      "[hub] model \"org/tiny\" at \"main\": a commit must be 40 hexadecimal digits; the server sent \"../../x\". Is " +
          endpoint() + " a Hugging Face hub?");
}

TEST_F(HubErrorsTest, RejectsNamesThatEscapeTheDirectory) {
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
      "[hub] model \"org/tiny\" at \"main\" lists \"x\" without a valid hash or size; got oid \"../../evil\" and size "
      "1.");
}

TEST_F(HubErrorsTest, RejectsAListThatContinuesOnAnotherServer) {
  fault_on("GET .*/tree/", Json::object({{"kind", "redirect"}, {"status", 200}, {"location", "x"}}));
  EXPECT_THAT(message_of([] { resolve("org/tiny"); }), HasSubstr("/tree/"));  // an empty body is not a list
  set_server(Json::object({{"page_size", 2}, {"endpoint", "http://127.0.0.1:1"}}));
  EXPECT_THAT(
      message_of([] { resolve("org/tiny"); }),
      StartsWith(
          "[hub] model \"org/tiny\" at \"main\": the list of files does not end, or continues on another server: "
          "http://127.0.0.1:1/api/models/org/tiny/tree/"));
}

TEST_F(HubErrorsTest, ACacheThatCannotBeCreated) {
  write_file_atomically(directory_ / "file", "x");
  const fs::path blobs = directory_ / "file/models--org--tiny/blobs";
  EXPECT_EQ(message_of([&] { resolve("org/tiny", {.cache_dir = directory_ / "file"}); }),
            "[hub] cannot create " + blobs.string() + ": Not a directory. Set HF_HUB_CACHE to a writable directory.");
}

}  // namespace
}  // namespace easydel

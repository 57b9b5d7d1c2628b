// What the options of downloads and uploads do, with a hub of the test's own (reference/hub_server.py).
#include <ATen/ATen.h>

#include "easydel/core/files/file.h"
#include "easydel/infra/auto_model.h"
#include "easydel/infra/config/auto_config.h"
#include "easydel/io/hub/file_lock.h"
#include "easydel/io/hub/hash.h"
#include "easydel/io/hub/http.h"
#include "easydel/io/hub/hub.h"
#include "easydel/io/hub/hub_push.h"
#include "easydel/io/parallel.h"
#include "tests/infra/tiny_llama.h"
#include "tests/support/hub_fixture.h"
#include "tests/support/probe.h"

namespace easydel::hub_probes {
namespace {

namespace fs = std::filesystem;
using testing::EndsWith;
using testing::HasSubstr;
using testing_support::is_refused;
using testing_support::progress_of;

// A hub that runs while it lives, with a small model and an account that may write.
class Hub : public HubTest {
 public:
  static constexpr const char* kModel = "models/org/tiny";

  Hub() {
    add_small_model();
    start();
    folder = directory_ / "push";
    write("config.json", "{}");
    write("model.safetensors", some_bytes(100'000));
  }
  void TestBody() override {}

  using HubTest::add_file, HubTest::cache, HubTest::command, HubTest::count, HubTest::endpoint, HubTest::fault,
      HubTest::fixture, HubTest::repo_cache, HubTest::requests, HubTest::set_repo;

  void write(const std::string& name, const std::string& content) const {
    fs::create_directories((folder / name).parent_path());
    write_file_atomically(folder / name, content);
  }
  Json show(const std::string& repo, const std::string& revision = "main") {
    return command(Json::object({{"do", "show"}, {"repo", repo}, {"revision", revision}}));
  }
  void load_branch(const std::string& branch, const std::string& name, const std::string& content) {
    add_file("next", name, content);
    command(Json::object({{"do", "load"}, {"repo", kModel}, {"folder", fixture("next").string()}, {"branch", branch}}));
  }
  // Once, whatever is asked of this kind.
  void drop(const std::string& match) { fault(Json::object({{"match", match}, {"kind", "drop"}})); }
  void refuse(const std::string& match) {
    fault(Json::object({{"match", match}, {"kind", "status"}, {"status", 503}}));
  }

  fs::path folder;  // files to upload
};

// A retry that leaves another worker time to come first.
const RetryPolicy kPatient{.base_delay = 0.4};
const RetryPolicy kNone{.max_retries = 0};

// HubOptions ---------------------------------------------------------------------------------------------------------

PROBE(HubOptions, repo_type) {
  Hub hub;
  hub.add_file("datasets/org/data", "train.jsonl", "{}\n");
  hub.command(Json::object(
      {{"do", "load"}, {"repo", "datasets/org/data"}, {"folder", hub.fixture("datasets/org/data").string()}}));
  EXPECT_EQ(read_file(resolve("org/data", {.repo_type = "dataset"}) / "train.jsonl"), "{}\n");
  EXPECT_TRUE(is_refused("org/data", [] { resolve("org/data"); }));
  EXPECT_TRUE(is_refused("repo_type", [] { resolve("org/data", {.repo_type = "collection"}); }));
}

PROBE(HubOptions, revision) {
  Hub hub;
  hub.load_branch("other", "config.json", R"({"version": 2})");
  EXPECT_EQ(read_file(resolve("org/tiny", {.revision = "other"}) / "config.json"), R"({"version": 2})");
  EXPECT_EQ(read_file(resolve("org/tiny") / "config.json"), R"({"model_type": "llama"})");
}

PROBE(HubOptions, token) {
  Hub hub;
  hub.set_repo(Hub::kModel, Json::object({{"private", true}}));
  EXPECT_TRUE(is_refused("org/tiny", [] { resolve("org/tiny"); }));
  EXPECT_NO_THROW(resolve("org/tiny", {.token = "hf_good"}));
}

PROBE(HubOptions, files) {
  Hub hub;
  const fs::path snapshot = resolve("org/tiny", {.files = {"README.md", "original/*"}});
  EXPECT_TRUE(fs::exists(snapshot / "README.md"));
  EXPECT_TRUE(fs::exists(snapshot / "original/params.json"));
  EXPECT_FALSE(fs::exists(snapshot / "config.json"));
}

PROBE(HubOptions, endpoint) {
  Hub hub;
  const ScopedVariable elsewhere("HF_ENDPOINT", "http://127.0.0.1:1");
  EXPECT_NO_THROW(resolve("org/tiny", {.endpoint = hub.endpoint()}));
  EXPECT_EQ(hub.count("GET", "/tree/"), 1U);
}

PROBE(HubOptions, cache_dir) {
  Hub hub;
  const TemporaryDirectory place;
  const fs::path snapshot = resolve("org/tiny", {.cache_dir = place.path()});
  EXPECT_TRUE(snapshot.string().starts_with(place.path().string()));
  EXPECT_FALSE(fs::exists(hub.repo_cache()));
}

PROBE(HubOptions, local_files_only) {
  Hub hub;
  EXPECT_TRUE(is_refused("local_files_only", [] { resolve("org/tiny", {.local_files_only = true}); }));
  EXPECT_EQ(hub.count("GET", "/"), 0U);
}

PROBE(HubOptions, progress) {
  Hub hub;
  const ScopedVariable shown("HF_HUB_DISABLE_PROGRESS_BARS", std::nullopt);
  EXPECT_THAT(progress_of([] { resolve("org/tiny", {.files = {"config.json"}}); }), HasSubstr("config.json"));
  EXPECT_EQ(progress_of([] { resolve("org/tiny", {.files = {"tokenizer.json"}, .progress = false}); }), "");
}

// While one worker waits to ask for its file again, another one asks for the other file, if there is one.
PROBE(HubOptions, max_workers) {
  for (const int workers : {1, 2}) {
    Hub hub;
    hub.drop("cdn GET /blob/");
    resolve("org/tiny", {.files = {"*.safetensors"}, .max_workers = workers, .retry = kPatient});
    const Json asked = hub.requests("GET", "/blob/", "cdn");
    EXPECT_EQ(asked.at(0).at("path") == asked.at(1).at("path"), workers == 1);
  }
}

PROBE(HubOptions, lock_timeout) {
  Hub hub;
  const fs::path locks = hub.cache() / ".locks/models--org--tiny";
  fs::create_directories(locks);
  const FileLock held(locks / (git_blob_hash(R"({"model_type": "llama"})") + ".lock"), std::chrono::seconds(1));
  EXPECT_TRUE(is_refused("for more than 0 s", [] {
    resolve("org/tiny", {.files = {"config.json"}, .lock_timeout = std::chrono::seconds(0)});
  }));
}

PROBE(HubOptions, retry) {
  Hub hub;
  hub.refuse("GET /api");
  EXPECT_TRUE(is_refused("503", [] { resolve("org/tiny", {.retry = kNone}); }));
  hub.refuse("GET /api");
  EXPECT_NO_THROW(resolve("org/tiny"));
}

// PushOptions --------------------------------------------------------------------------------------------------------

class Account : public Hub {
  ScopedVariable token_{"HF_TOKEN", "hf_good"};
};

PROBE(PushOptions, repo_type) {
  Account hub;
  const CommitInfo info = upload_folder(hub.folder, "org/new", {.repo_type = "dataset"});
  EXPECT_EQ(info.repo_url, hub.endpoint() + "/datasets/org/new");
  EXPECT_TRUE(hub.show("datasets/org/new").at("files").contains("config.json"));
}

PROBE(PushOptions, private_repo) {
  Account hub;
  upload_folder(hub.folder, "org/open");
  upload_folder(hub.folder, "org/closed", {.private_repo = true});
  EXPECT_FALSE(hub.show("models/org/open").at("private").as_bool());
  EXPECT_TRUE(hub.show("models/org/closed").at("private").as_bool());
}

PROBE(PushOptions, token) {
  Hub hub;  // without a token in the environment
  EXPECT_TRUE(is_refused("needs a token", [&] { upload_folder(hub.folder, "org/new"); }));
  EXPECT_NO_THROW(upload_folder(hub.folder, "org/new", {.token = "hf_good"}));
}

PROBE(PushOptions, revision) {
  Account hub;
  upload_folder(hub.folder, "org/new", {.revision = "draft"});
  EXPECT_TRUE(hub.show("models/org/new", "draft").at("files").contains("config.json"));
  EXPECT_FALSE(hub.show("models/org/new").at("files").contains("config.json"));
}

PROBE(PushOptions, create_pr) {
  Account hub;
  const CommitInfo info = upload_folder(hub.folder, "org/new", {.create_pr = true});
  EXPECT_EQ(info.pull_request_url, hub.endpoint() + "/org/new/discussions/1");
  EXPECT_FALSE(hub.show("models/org/new").at("files").contains("config.json"));
}

PROBE(PushOptions, commit_message) {
  Account hub;
  upload_folder(hub.folder, "org/new", {.commit_message = "Better weights"});
  EXPECT_EQ(hub.show("models/org/new").at("message"), Json("Better weights\n"));
}

PROBE(PushOptions, commit_description) {
  Account hub;
  upload_folder(hub.folder, "org/new", {.commit_description = "Trained longer."});
  EXPECT_THAT(hub.show("models/org/new").at("message").as_string(), EndsWith("\nTrained longer."));
}

PROBE(PushOptions, use_temp_dir) {
  Account hub;
  const TemporaryDirectory place;
  for (const bool temporary : {true, false}) {
    fs::path used;
    const auto save = [&](const fs::path& where) {
      used = where;
      write_file_atomically(where / "config.json", "{}");
    };
    push_to_hub("org/saved", save, {.use_temp_dir = temporary, .directory = place / "kept"});
    EXPECT_EQ(used == place / "kept", !temporary);
    EXPECT_EQ(fs::exists(used), !temporary);
  }
}

PROBE(PushOptions, directory) {
  Account hub;
  const TemporaryDirectory place;
  const auto save = [](const fs::path& where) { write_file_atomically(where / "config.json", "{}"); };
  push_to_hub("org/saved", save, {.use_temp_dir = false, .directory = place / "here"});
  EXPECT_EQ(read_file(place / "here/config.json"), "{}");
}

PROBE(PushOptions, files) {
  Account hub;
  upload_folder(hub.folder, "org/new", {.files = {"*.json"}});
  EXPECT_TRUE(hub.show("models/org/new").at("files").contains("config.json"));
  EXPECT_FALSE(hub.show("models/org/new").at("files").contains("model.safetensors"));
  // The same of what a function saves, wherever it saves it.
  const TemporaryDirectory place;
  const auto save = [](const fs::path& where) {
    write_file_atomically(where / "config.json", "{}");
    write_file_atomically(where / "notes.txt", "private");
  };
  for (const bool temporary : {true, false}) {
    const std::string repo = temporary ? "org/first" : "org/second";
    push_to_hub(repo, save, {.use_temp_dir = temporary, .directory = place / "kept", .files = {"*.json"}});
    EXPECT_TRUE(hub.show("models/" + repo).at("files").contains("config.json"));
    EXPECT_FALSE(hub.show("models/" + repo).at("files").contains("notes.txt"));
  }
}

PROBE(PushOptions, endpoint) {
  Account hub;
  const ScopedVariable elsewhere("HF_ENDPOINT", "http://127.0.0.1:1");
  EXPECT_EQ(upload_folder(hub.folder, "org/new", {.endpoint = hub.endpoint()}).repo_url, hub.endpoint() + "/org/new");
}

PROBE(PushOptions, progress) {
  Account hub;
  const ScopedVariable shown("HF_HUB_DISABLE_PROGRESS_BARS", std::nullopt);
  EXPECT_THAT(progress_of([&] { upload_folder(hub.folder, "org/a"); }), HasSubstr("model.safetensors"));
  hub.write("model.safetensors", some_bytes(100'000, 2));
  EXPECT_EQ(progress_of([&] { upload_folder(hub.folder, "org/b", {.progress = false}); }), "");
}

PROBE(PushOptions, max_workers) {
  for (const int workers : {1, 2}) {
    Account hub;
    hub.write("other.safetensors", some_bytes(50'000, 7));
    hub.drop("cdn PUT");
    upload_folder(hub.folder, "org/new", {.max_workers = workers, .retry = kPatient});
    const Json sent = hub.requests("PUT", "/upload/", "cdn");
    EXPECT_EQ(sent.at(0).at("path") == sent.at(1).at("path"), workers == 1);
  }
}

PROBE(PushOptions, retry) {
  Account hub;
  hub.refuse("POST .*/preupload");
  EXPECT_TRUE(is_refused("503", [&] { upload_folder(hub.folder, "org/new", {.retry = kNone}); }));
  hub.refuse("POST .*/preupload");
  EXPECT_NO_THROW(upload_folder(hub.folder, "org/new"));
}

// HttpClientOptions --------------------------------------------------------------------------------------------------

Json sent_with(Hub& hub, HttpClientOptions options) {
  HttpClient client(std::move(options));
  client.send({.url = hub.endpoint() + "/api/models/org/tiny"});
  const Json all = hub.requests("GET", "/api/models");
  return all.at(all.size() - 1);
}

PROBE(HttpClientOptions, user_agent) {
  Hub hub;
  EXPECT_EQ(sent_with(hub, {.user_agent = "probe/1"}).at("agent"), Json("probe/1"));
}

PROBE(HttpClientOptions, token) {
  Hub hub;
  EXPECT_TRUE(sent_with(hub, {.trusted_url = hub.endpoint()}).at("authorization").is_null());
  EXPECT_EQ(sent_with(hub, {.token = "hf_good", .trusted_url = hub.endpoint()}).at("authorization"),
            Json("Bearer hf_good"));
}

PROBE(HttpClientOptions, trusted_url) {
  Hub hub;
  EXPECT_TRUE(sent_with(hub, {.token = "hf_good", .trusted_url = "http://127.0.0.1:1"}).at("authorization").is_null());
}

PROBE(HttpClientOptions, silence_limit) {
  Hub hub;
  hub.fault(Json::object({{"match", "GET /api"}, {"kind", "stall"}, {"after", 10}}));
  EXPECT_TRUE(is_refused("no data for 1 s", [&] { sent_with(hub, {.silence_limit = std::chrono::seconds(1)}); }));
  hub.command(Json::object({{"do", "release"}}));
}

PROBE(HttpClientOptions, time_limit) {
  Hub hub;
  hub.fault(Json::object({{"match", "GET /api"}, {"kind", "stall"}, {"after", 10}}));
  EXPECT_TRUE(is_refused("timed out", [&] { sent_with(hub, {.time_limit = std::chrono::seconds(1)}); }));
  hub.command(Json::object({{"do", "release"}}));
}

PROBE(HttpClientOptions, max_body_bytes) {
  Hub hub;
  EXPECT_TRUE(is_refused("the response is larger than", [&] { sent_with(hub, {.max_body_bytes = 1}); }));
  EXPECT_NO_THROW(sent_with(hub, {.max_body_bytes = 100'000}));
}

PROBE(HttpClientOptions, check_url) {
  Hub hub;
  std::vector<std::string> asked;
  sent_with(hub, {.check_url = [&](const std::string& url) { asked.push_back(url); }});
  EXPECT_EQ(asked, std::vector<std::string>{hub.endpoint() + "/api/models/org/tiny"});
  EXPECT_TRUE(is_refused(
      "not there", [&] { sent_with(hub, {.check_url = [](const std::string&) { fail<ConfigError>("not there"); }}); }));
}

PROBE(HttpClientOptions, public_addresses_only) {
  Hub hub;
  EXPECT_TRUE(is_refused("its address is of this machine or of a private network",
                         [&] { sent_with(hub, {.public_addresses_only = true}); }));
}

PROBE(HttpClientOptions, stop) {
  Hub hub;
  std::stop_source stop;
  stop.request_stop();
  EXPECT_THROW(sent_with(hub, {.stop = stop.get_token()}), Cancelled);
}

// What loading and saving ask of the hub -----------------------------------------------------------------------------

// The files of a tiny model on a hub, on a branch of its own.
class ModelHub : public Hub {
 public:
  ModelHub() {
    const TemporaryDirectory place;
    tiny_llama()->save_pretrained(place.path(), {.verbose = false});
    command(Json::object({{"do", "load"}, {"repo", kModel}, {"folder", place.path().string()}, {"branch", "release"}}));
  }
};

PROBE(LoadOptions, revision) {
  ModelHub hub;
  const auto model = AutoModelForCausalLM::from_pretrained("org/tiny", {.revision = "release", .verbose = false});
  EXPECT_TRUE(at::equal(logits_of(*model), logits_of(*tiny_llama())));
  EXPECT_TRUE(
      is_refused("nowhere", [] { AutoModelForCausalLM::from_pretrained("org/tiny", {.revision = "nowhere"}); }));
}

PROBE(LoadOptions, token) {
  ModelHub hub;
  hub.set_repo(Hub::kModel, Json::object({{"private", true}}));
  EXPECT_TRUE(
      is_refused("org/tiny", [] { AutoModelForCausalLM::from_pretrained("org/tiny", {.revision = "release"}); }));
  EXPECT_NO_THROW(
      AutoModelForCausalLM::from_pretrained("org/tiny", {.revision = "release", .token = "hf_good", .verbose = false}));
}

PROBE(ConfigOptions, hub) {
  ModelHub hub;
  EXPECT_EQ(AutoConfig::from_pretrained("org/tiny", {.hub = {.revision = "release"}})->hidden_size, 16);
  EXPECT_EQ(AutoConfig::from_pretrained("org/tiny")->hidden_size, 4096);  // of a file that says nothing
}

PROBE(SaveOptions, push_to_hub) {
  Account hub;
  const TemporaryDirectory place;
  tiny_llama()->save_pretrained(place / "saved", {.verbose = false});
  EXPECT_EQ(hub.count("POST", "/commit/"), 0U);
  tiny_llama()->save_pretrained(place / "saved-too", {.verbose = false, .push_to_hub = true});
  EXPECT_TRUE(hub.show("models/someone/saved-too").at("files").contains("model.safetensors"));
  EXPECT_TRUE(fs::exists(place / "saved-too/model.safetensors"));
}

PROBE(SaveOptions, repo_id) {
  Account hub;
  const TemporaryDirectory place;
  tiny_llama()->save_pretrained(place / "saved", {.verbose = false, .push_to_hub = true, .repo_id = "org/named"});
  EXPECT_TRUE(hub.show("models/org/named").at("files").contains("model.safetensors"));
  EXPECT_TRUE(is_refused("repo_id", [&] { tiny_llama()->save_pretrained(place / "saved", {.repo_id = "org/named"}); }));
}

PROBE(SaveOptions, token) {
  Hub hub;  // without a token in the environment
  const TemporaryDirectory place;
  SaveOptions options{.verbose = false, .push_to_hub = true, .repo_id = "org/saved"};
  EXPECT_TRUE(is_refused("needs a token", [&] { tiny_llama()->save_pretrained(place / "saved", options); }));
  options.token = "hf_good";
  tiny_llama()->save_pretrained(place / "saved", options);
  EXPECT_TRUE(hub.show("models/org/saved").at("files").contains("model.safetensors"));
}

}  // namespace
}  // namespace easydel::hub_probes

// A test with its own hub (reference/hub_server.py) and cache, and the environment set for both.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "easydel/core/json/json.h"
#include "easydel/io/hub/hub.h"
#include "tests/support/child_process.h"
#include "tests/support/temporary_directory.h"

namespace easydel {

// Sets environment variables during its lifetime; an empty optional unsets one.
class ScopedVariable {
 public:
  ScopedVariable(std::string name, std::optional<std::string> value);
  ~ScopedVariable();
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;

 private:
  std::string name_;
  std::optional<std::string> before_;
};

// Captures log lines of warning and above during its lifetime.
class CapturedLog {
 public:
  CapturedLog();
  ~CapturedLog();
  CapturedLog(const CapturedLog&) = delete;
  CapturedLog& operator=(const CapturedLog&) = delete;
  std::vector<std::string> warnings() const;

 private:
  struct Lines;
  std::shared_ptr<Lines> lines_;
};

class HubTest : public testing::Test {
 protected:
  HubTest();

  void add_file(const std::string& repo, const std::string& name, const std::string& content);  // before start
  void add_small_model();  // "models/org/tiny": config.json, tokenizer, a nested file, two shards in LFS, a README
  void start();

  Json command(Json request);
  void fault(Json fault);  // {"match": regex on "hub GET /path", "kind": …, "times": 1}
  void set_server(Json values);
  void set_repo(const std::string& repo, Json values);
  Json requests(const std::string& method, const std::string& path_part, const std::string& role = "");
  std::size_t count(const std::string& method, const std::string& path_part) {
    return requests(method, path_part).size();
  }
  void forget_requests();

  const std::string& endpoint() const { return endpoint_; }
  const std::string& storage() const { return storage_; }
  std::filesystem::path cache() const { return directory_ / "hub"; }
  std::filesystem::path repo_cache(const std::string& folder = "models--org--tiny") const { return cache() / folder; }
  std::filesystem::path fixture(const std::string& repo) const { return directory_.path() / "fixtures" / repo; }
  std::filesystem::path incomplete_blob();  // the one there is, or an empty path

  std::string message_of(const std::function<void()>& action);  // of the easydel::Error it throws
  void expect_same_files(const std::filesystem::path& snapshot, const std::string& repo,
                         const std::vector<std::string>& names);
  Json peer(const std::vector<std::string>& arguments);  // reference/hub_peer.py

  TemporaryDirectory directory_;

 private:
  std::vector<std::unique_ptr<ScopedVariable>> variables_;
  std::unique_ptr<ChildProcess> server_;
  std::string endpoint_, storage_;
};

// "models/org/tiny" on a running hub.
class TinyModelTest : public HubTest {
 protected:
  static constexpr const char* kModel = "models/org/tiny";
  // What a loader reads of it.
  const std::vector<std::string> kLoaded = {"config.json", "tokenizer.json", "model-00001-of-00002.safetensors",
                                            "model-00002-of-00002.safetensors"};
  TinyModelTest();

  std::string commit();
  std::string sha256(const std::string& name);
  void fault_on(const std::string& match, Json more);
  std::string from() { return " from " + endpoint() + ". "; }  // the middle of each message that comes from the hub
};

// `size` bytes that look random and are the same each time.
std::string some_bytes(std::size_t size, uint32_t seed = 1);

}  // namespace easydel

#include "tests/support/hub_fixture.h"

#include <cstdlib>
#include <mutex>
#include <random>

#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/core/log.h"
#include "easydel/io/hub/hash.h"

namespace easydel {

namespace fs = std::filesystem;

ScopedVariable::ScopedVariable(std::string name, std::optional<std::string> value) : name_(std::move(name)) {
  if (const char* before = std::getenv(name_.c_str())) before_ = before;
  value ? ::setenv(name_.c_str(), value->c_str(), 1) : ::unsetenv(name_.c_str());
}

ScopedVariable::~ScopedVariable() {
  before_ ? ::setenv(name_.c_str(), before_->c_str(), 1) : ::unsetenv(name_.c_str());
}

struct CapturedLog::Lines {
  std::mutex mutex;
  std::vector<std::string> warnings;
};

CapturedLog::CapturedLog() : lines_(std::make_shared<Lines>()) {
  log::set_sink([lines = lines_](log::Level level, const std::string& line) {
    const std::lock_guard lock(lines->mutex);
    if (level >= log::Level::Warning) lines->warnings.push_back(line.substr(line.find('[')));
  });
}

CapturedLog::~CapturedLog() { log::set_sink({}); }

std::vector<std::string> CapturedLog::warnings() const {
  const std::lock_guard lock(lines_->mutex);
  return lines_->warnings;
}

HubTest::HubTest() {
  const auto set = [&](const char* name, std::optional<std::string> value) {
    variables_.push_back(std::make_unique<ScopedVariable>(name, std::move(value)));
  };
  for (const char* name : {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH", "HF_HUB_OFFLINE", "XDG_CACHE_HOME",
                           "TRANSFORMERS_OFFLINE", "HUGGINGFACE_HUB_CACHE", "HF_HUB_DISABLE_IMPLICIT_TOKEN",
                           "HF_HUB_DISABLE_SYMLINKS", "HF_HUB_DOWNLOAD_TIMEOUT", "SSL_CERT_FILE", "HF_ENDPOINT"}) {
    set(name, std::nullopt);
  }
  set("HF_HOME", directory_.path().string());
  set("HF_HUB_CACHE", cache().string());
  set("HF_HUB_DISABLE_PROGRESS_BARS", "1");
  set("HF_HUB_DISABLE_TELEMETRY", "1");
  set("HF_HUB_DISABLE_XET", "1");
  set("EASYDEL_HUB_RETRY_DELAY", "0.001");
  set("no_proxy", "127.0.0.1");
}

void HubTest::add_file(const std::string& repo, const std::string& name, const std::string& content) {
  const fs::path path = fixture(repo) / name;
  fs::create_directories(path.parent_path());
  write_file_atomically(path, content);
}

void HubTest::add_small_model() {
  add_file("models/org/tiny", "config.json", R"({"model_type": "llama"})");
  add_file("models/org/tiny", "tokenizer.json", some_bytes(3000, 2));
  add_file("models/org/tiny", "original/params.json", "{}");
  add_file("models/org/tiny", "model-00001-of-00002.safetensors", some_bytes(300'000, 3));
  add_file("models/org/tiny", "model-00002-of-00002.safetensors", some_bytes(200'000, 4));
  add_file("models/org/tiny", "README.md", "# Tiny\n");
}

void HubTest::start() {
  fs::create_directories(directory_ / "fixtures");
  server_ = std::make_unique<ChildProcess>(
      std::vector<std::string>{python(), reference_script("hub_server.py"), (directory_ / "fixtures").string()});
  const Json addresses = Json::parse(server_->read_line());
  endpoint_ = addresses.at("hub").as_string();
  storage_ = addresses.at("cdn").as_string();
  variables_.push_back(std::make_unique<ScopedVariable>("HF_ENDPOINT", endpoint_));
}

Json HubTest::command(Json request) {
  server_->write_line(request.dump());
  return Json::parse(server_->read_line());
}

void HubTest::fault(Json fault) { command(Json::object({{"do", "fault"}, {"fault", std::move(fault)}})); }
void HubTest::set_server(Json values) { command(Json::object({{"do", "set"}, {"values", std::move(values)}})); }
void HubTest::forget_requests() { command(Json::object({{"do", "clear"}})); }

void HubTest::set_repo(const std::string& repo, Json values) {
  command(Json::object({{"do", "repo"}, {"repo", repo}, {"values", std::move(values)}}));
}

Json HubTest::requests(const std::string& method, const std::string& path_part, const std::string& role) {
  Json found = Json::array();
  const Json log = command(Json::object({{"do", "log"}}));
  for (const Json& entry : log.as_array()) {
    const bool here = entry.at("method").as_string() == method &&
                      entry.at("path").as_string().find(path_part) != std::string::npos &&
                      (role.empty() || entry.at("role").as_string() == role);
    if (here) found.push_back(entry);
  }
  return found;
}

fs::path HubTest::incomplete_blob() {
  std::error_code error;
  for (fs::recursive_directory_iterator it(cache(), error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() == ".incomplete") return it->path();
  }
  return {};
}

std::string HubTest::message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

void HubTest::expect_same_files(const fs::path& snapshot, const std::string& repo,
                                const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    ASSERT_TRUE(fs::exists(snapshot / name)) << name;
    EXPECT_TRUE(read_file(snapshot / name) == read_file(fixture(repo) / name)) << name << " has different bytes";
  }
}

Json HubTest::peer(const std::vector<std::string>& arguments) {
  std::vector<std::string> line = {python(), reference_script("hub_peer.py")};
  line.insert(line.end(), arguments.begin(), arguments.end());
  ChildProcess process(line);
  return Json::parse(process.read_all());
}

TinyModelTest::TinyModelTest() {
  add_small_model();
  start();
}

std::string TinyModelTest::commit() {
  return command(Json::object({{"do", "show"}, {"repo", kModel}})).at("commit").as_string();
}

std::string TinyModelTest::sha256(const std::string& name) { return sha256_of_file(fixture(kModel) / name); }

void TinyModelTest::fault_on(const std::string& match, Json more) {
  more["match"] = match;
  fault(std::move(more));
}

std::string some_bytes(std::size_t size, uint32_t seed) {
  std::minstd_rand generator(seed);
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(generator() >> 8);
  return bytes;
}

}  // namespace easydel

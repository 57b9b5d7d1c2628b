#include "easydel/io/hub/hub_environment.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "easydel/core/files/file.h"

namespace easydel {

namespace fs = std::filesystem;

namespace {

std::string variable(const char* name, const std::string& otherwise = "") {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : otherwise;
}

bool is_true(std::string value) {
  std::transform(value.begin(), value.end(), value.begin(), [](unsigned char c) { return std::toupper(c); });
  return value == "1" || value == "ON" || value == "YES" || value == "TRUE";
}

// "~/x" and "$NAME/x" or "${NAME}/x", which people write into these variables.
fs::path expanded(const std::string& text) {
  std::string result;
  std::size_t at = 0;
  if (text == "~" || text.starts_with("~/")) {
    result = variable("HOME", "~");
    at = 1;
  }
  while (at < text.size()) {
    const bool braced = text.compare(at, 2, "${") == 0;
    const std::size_t begin = at + (braced ? 2 : 1);
    std::size_t end = begin;
    while (end < text.size() && (std::isalnum(static_cast<unsigned char>(text[end])) || text[end] == '_')) ++end;
    const bool closed = !braced || (end < text.size() && text[end] == '}');
    const char* value =
        text[at] == '$' && end > begin && closed ? std::getenv(text.substr(begin, end - begin).c_str()) : nullptr;
    if (value != nullptr) {
      result += value;
      at = end + (braced ? 1 : 0);
    } else {
      result += text[at++];
    }
  }
  return result;
}

double number(const char* name, double otherwise) {
  const std::string text = variable(name);
  if (text.empty()) return otherwise;
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  require<ConfigError>(*end == '\0' && std::isfinite(value) && value >= 0, "[hub] ", name,
                       " must be a number of seconds; got \"", text, "\".");
  return value;
}

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  return first == text.npos ? "" : text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

std::string find_token(const fs::path& home) {
  if (is_true(variable("HF_HUB_DISABLE_IMPLICIT_TOKEN"))) return "";
  for (const char* name : {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"}) {
    if (const std::string token = trimmed(variable(name)); !token.empty()) return token;
  }
  const fs::path path = expanded(variable("HF_TOKEN_PATH", (home / "token").string()));
  std::error_code ignored;
  return fs::is_regular_file(path, ignored) ? trimmed(read_file(path)) : "";
}

}  // namespace

HubEnvironment read_hub_environment() {
  HubEnvironment env;
  env.endpoint = variable("HF_ENDPOINT", "https://huggingface.co");
  while (env.endpoint.ends_with('/')) env.endpoint.pop_back();
  env.home = expanded(variable("HF_HOME", variable("XDG_CACHE_HOME", "~/.cache") + "/huggingface"));
  env.cache =
      fs::absolute(expanded(variable("HF_HUB_CACHE", variable("HUGGINGFACE_HUB_CACHE", (env.home / "hub").string()))));
  env.token = find_token(env.home);
  env.offline = is_true(variable("HF_HUB_OFFLINE", variable("TRANSFORMERS_OFFLINE")));
  env.progress_bars = !is_true(variable("HF_HUB_DISABLE_PROGRESS_BARS"));
  env.links = !is_true(variable("HF_HUB_DISABLE_SYMLINKS"));
  env.silence_limit = std::chrono::seconds(std::max(1L, std::lround(number("HF_HUB_DOWNLOAD_TIMEOUT", 10))));
  env.retry.base_delay = number("EASYDEL_HUB_RETRY_DELAY", env.retry.base_delay);
  return env;
}

}  // namespace easydel

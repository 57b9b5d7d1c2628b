// The hub's settings from the environment. The variables are those of huggingface_hub.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>

#include "easydel/io/hub/http_retry.h"

namespace easydel {

struct HubEnvironment {
  std::string endpoint;                // HF_ENDPOINT, or https://huggingface.co; without a "/" at the end
  std::filesystem::path home;          // HF_HOME, or $XDG_CACHE_HOME/huggingface, or ~/.cache/huggingface
  std::filesystem::path cache;         // HF_HUB_CACHE, or `home`/hub
  std::string token;                   // HF_TOKEN, or the content of HF_TOKEN_PATH, or of `home`/token
  bool offline = false;                // HF_HUB_OFFLINE
  bool progress_bars = true;           // unless HF_HUB_DISABLE_PROGRESS_BARS
  bool links = true;                   // unless HF_HUB_DISABLE_SYMLINKS: the cache then holds copies
  std::chrono::seconds silence_limit;  // HF_HUB_DOWNLOAD_TIMEOUT, or 10 s
  RetryPolicy retry;                   // EASYDEL_HUB_RETRY_DELAY: seconds before the first retry
};

HubEnvironment read_hub_environment();  // ConfigError on an invalid number

// The same, overridden by what HubOptions or PushOptions set.
template <class Options>
HubEnvironment read_hub_environment(const Options& options) {
  HubEnvironment env = read_hub_environment();
  if (!options.endpoint.empty()) env.endpoint = options.endpoint;
  while (env.endpoint.ends_with('/')) env.endpoint.pop_back();
  if (options.token) env.token = *options.token;
  if (options.retry) env.retry = *options.retry;
  env.progress_bars = env.progress_bars && options.progress;
  require<ConfigError>(env.endpoint.starts_with("http://") || env.endpoint.starts_with("https://"),
                       "[hub] HF_ENDPOINT must be a URL that begins with http:// or https://; got \"", env.endpoint,
                       "\".");
  return env;
}

}  // namespace easydel

// Adapters that come and go while the engine runs.
#include <algorithm>

#include "easydel/io/hub/hub.h"
#include "easydel/serve/engine/local_engine.h"

namespace easydel::serve {

LocalEngine::LoadedAdapters::iterator LocalEngine::find_adapter(const std::string& name) {
  return std::find_if(adapters_.begin(), adapters_.end(), [&](const auto& entry) { return entry.second.name == name; });
}

void LocalEngine::load_adapter(const std::string& name, const std::string& directory) {
  require<ConfigError>(!name.empty(), "[engine] an adapter needs a name.");
  require<NotSupportedError>(runner_.has_value(), "[engine] adapters of requests are not supported for ",
                             model_->type_name(), ". Merge \"", name, "\" into the model and serve that.");
  require<ConfigError>(runner_->is_leader(), "[engine] adapters are loaded by rank 0, for all.");
  const auto check_name = [&] {
    const std::lock_guard lock(mutex_);
    require<ConfigError>(find_adapter(name) == adapters_.end(), "[engine] there is an adapter \"", name,
                         "\" already. Unload it first, or give another name.");
  };
  check_name();
  const std::string files = resolve(directory, {.files = {"adapter_config.json", "adapter_model.*"}}).string();
  // Files are read while steps run; other ranks are between them, too.
  const std::vector<AdapterWeights> weights = runner_->adapters().read(files);
  std::optional<ServedAdapter> adapter;
  if (!runner_->is_shared()) adapter = runner_->adapters().place(weights);
  between_steps([&] {
    check_name();  // another caller may have been faster
    const int64_t index =
        adapter ? runner_->adapters().add(*std::move(adapter)) : runner_->load_adapter(files, weights);
    const std::lock_guard lock(mutex_);
    adapters_[index] = {.name = name, .prefix_key = ++loaded_adapters_};
  });
}

void LocalEngine::unload_adapter(const std::string& name) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = name.empty() ? adapters_.end() : find_adapter(name);
    require<ConfigError>(found != adapters_.end(), "[engine] there is no adapter \"", name, "\".");
    found->second.name.clear();
  }
  between_steps([this] { drop_unused_adapters(); });
}

std::vector<std::string> LocalEngine::adapters() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::pair<uint64_t, std::string>> loaded;
  for (const auto& [index, adapter] : adapters_) {
    if (!adapter.name.empty()) loaded.emplace_back(adapter.prefix_key, adapter.name);
  }
  std::sort(loaded.begin(), loaded.end());  // in the order in which they came
  std::vector<std::string> names;
  for (auto& [key, name] : loaded) names.push_back(std::move(name));
  return names;
}

void LocalEngine::release_adapter(const ActiveRequest& request) {
  if (request.adapter >= 0) --adapters_.at(request.adapter).users;
}

void LocalEngine::drop_unused_adapters() {
  std::vector<int64_t> unused;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [index, adapter] : adapters_) {
      if (adapter.name.empty() && adapter.users == 0) unused.push_back(index);
    }
    for (const int64_t index : unused) adapters_.erase(index);
  }
  for (const int64_t index : unused) runner_->unload_adapter(index);
}

}  // namespace easydel::serve

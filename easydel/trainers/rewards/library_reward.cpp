// A function of a shared library: double reward(const char* prompt, const char* completion, const char* row), in C.
// `row` is the row of the data as JSON, and NaN says that a completion cannot be judged.
#include <dlfcn.h>

#include <cmath>
#include <filesystem>
#include <mutex>

#include "easydel/core/error.h"
#include "easydel/trainers/rewards/builtin_rewards.h"

namespace easydel {
namespace {

class LibraryReward final : public Reward {
 public:
  explicit LibraryReward(RewardSettings& settings) {
    // A path without a slash would be looked for among the system's libraries.
    const std::string path = std::filesystem::absolute(settings.text("path")).string();
    const std::string name = settings.text("function", "reward");
    library_.reset(::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL));
    require<ConfigError>(library_ != nullptr, "[rewards] library: ", error(), ".");
    function_ = reinterpret_cast<Function>(::dlsym(library_.get(), name.c_str()));
    require<ConfigError>(function_ != nullptr, "[rewards] ", path, " has no function \"", name,
                         "\". It must be declared extern \"C\".");
  }
  std::string name() const override { return "library"; }
  RewardLanes lanes() const override { return {.count = 1, .unit = RewardLanes::Unit::Completion}; }

  RewardScores score(const std::vector<RewardInput>& inputs) override {
    static std::mutex one_at_a_time;  // for functions that are not thread-safe, also if a library gives several rewards
    const std::lock_guard lock(one_at_a_time);
    RewardScores scores;
    for (const RewardInput& input : inputs) {
      const std::string row = input.row ? input.row->dump() : "null";
      const double score = function_(input.prompt.c_str(), input.completion.c_str(), row.c_str());
      require<IoError>(!std::isinf(score), "[rewards] library must return a finite number or NaN; got ", score, ".");
      scores.push_back(std::isnan(score) ? std::nullopt : std::optional(score));
    }
    return scores;
  }

 private:
  using Function = double (*)(const char*, const char*, const char*);
  struct Close {
    void operator()(void* library) const { ::dlclose(library); }
  };

  static std::string error() {
    const char* text = ::dlerror();
    return text ? text : "it cannot be loaded";
  }

  std::unique_ptr<void, Close> library_;
  Function function_ = nullptr;
};

}  // namespace

std::unique_ptr<Reward> make_library_reward(RewardSettings& settings) {
  return std::make_unique<LibraryReward>(settings);
}

}  // namespace easydel

#include "easydel/trainers/rollouts/completion_log.h"

#include <cmath>
#include <filesystem>
#include <fstream>

#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/core/log.h"

namespace easydel {
namespace {

std::string shortened(const std::string& text) {
  constexpr std::size_t kMaxLength = 200;
  const std::string quoted = Json(text).dump();
  return quoted.size() <= kMaxLength ? quoted : quoted.substr(0, kMaxLength) + "…";
}

Json finite_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(); }

}  // namespace

void log_completions(const std::vector<LoggedCompletion>& completions, int64_t step,
                     const TrainingArguments& arguments) {
  if (arguments.save_directory) {
    const std::filesystem::path directory(*arguments.save_directory);
    make_directory(directory);
    std::ofstream file(directory / "completions.jsonl", std::ios::app);
    for (const LoggedCompletion& each : completions) {
      Json rewards = Json::object();
      for (const auto& [name, value] : each.rewards) rewards[name] = value ? Json(*value) : Json();
      file << Json::object({{"step", step + 1},
                            {"prompt", each.prompt},
                            {"completion", each.completion},
                            {"rewards", rewards},
                            {"reward", finite_or_null(each.reward)},
                            {"advantage", finite_or_null(each.advantage)}})
                  .dump()
           << "\n";
    }
    require<IoError>(file.good(), "[log_completions] ", (directory / "completions.jsonl").string(),
                     " cannot be written.");
  }
  const auto shown = static_cast<std::size_t>(arguments.rollout.num_completions_to_print);
  for (std::size_t i = 0; i < std::min(shown, completions.size()); ++i) {
    const LoggedCompletion& each = completions[i];
    log::info("[step ", step + 1, "] ", shortened(each.prompt), " -> ", shortened(each.completion), ", reward ",
              each.reward, std::isfinite(each.advantage) ? concat(", advantage ", each.advantage) : "");
  }
}

}  // namespace easydel

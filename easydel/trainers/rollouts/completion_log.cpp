#include "easydel/trainers/rollouts/completion_log.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/core/log.h"
#include "easydel/trainers/logs/number_text.h"
#include "easydel/trainers/previews/text_table.h"

namespace easydel {
namespace {

std::string number_text(double value) { return std::isfinite(value) ? short_number(value) : ""; }

Json finite_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(); }

}  // namespace

void log_completions(const std::vector<LoggedCompletion>& completions, int64_t step,
                     const TrainingArguments& arguments) {
  if (arguments.save_directory) {
    const std::filesystem::path directory(*arguments.save_directory);
    make_directory(directory);
    std::ofstream file(directory / kCompletionsFile, std::ios::app);
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
    require<IoError>(file.good(), "[log_completions] ", (directory / kCompletionsFile).string(), " cannot be written.");
  }
  const auto shown = static_cast<std::size_t>(arguments.rollout.num_completions_to_print);
  if (shown == 0 || completions.empty()) return;
  TextTable table({{"prompt", 33}, {"completion", 43}, {"reward", 9}, {"advantage", 9}});
  for (std::size_t i = 0; i < std::min(shown, completions.size()); ++i) {
    const LoggedCompletion& each = completions[i];
    const bool is_same = i > 0 && each.prompt == completions[i - 1].prompt;
    table.add({is_same ? "" : on_one_line(each.prompt), on_one_line(each.completion), number_text(each.reward),
               number_text(each.advantage)});
  }
  log::info("[completions] step ", step + 1);
  for (const std::string& line : table.lines()) log::info(line);
}

}  // namespace easydel

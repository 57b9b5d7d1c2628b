// Whether two starts of a trainer are one run: the same model, data and settings.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "easydel/core/json/json.h"
#include "easydel/trainers/trainer.h"

namespace easydel {

// What decides the weights of a run, for trainer.json: the files of the model, of other models and of the tokenizer,
// the model's dtypes and config, the data, the arguments. Left out is what may change from start to start: the mesh,
// the length, evaluation, logs, where and when checkpoints are written. After the objective was prepared.
Json describe_run(const TrainerOptions& options);

// One phrase for each difference, `learning_rate was 0.01, now 0.02`; none: the same run.
std::vector<std::string> differences(const Json& before, const Json& now);

// Of a model's config and weights in a directory or a file. Of large files the size and some of the blocks count.
std::string model_digest(const std::filesystem::path& path);

}  // namespace easydel

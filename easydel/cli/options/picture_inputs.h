// The inputs of models that compare texts and pictures, from the command line.
#pragma once

#include <string>
#include <vector>

#include "easydel/cli/options/model_options.h"
#include "easydel/infra/files/model_io.h"

namespace easydel::cli {

// Of picture files, by the processor beside the model.
at::Tensor read_pictures(const ModelOptions& options, const std::vector<std::string>& files);

// Ids of the texts, each padded to the longest that the model takes, as these models are trained.
at::Tensor read_texts(const ModelOptions& options, const BaseModule& module, const std::vector<std::string>& texts);

}  // namespace easydel::cli

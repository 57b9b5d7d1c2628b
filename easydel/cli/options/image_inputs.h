// The inputs of models of images, from the command line.
#pragma once

#include <string>
#include <vector>

#include "easydel/cli/options/model_options.h"
#include "easydel/generation/inputs.h"
#include "easydel/infra/files/model_io.h"

namespace easydel {
struct ImageInputs;  // processors/vision_processor.h
}

namespace easydel::cli {

// Of image files, by the processor beside the model.
at::Tensor read_images(const ModelOptions& options, const std::vector<std::string>& files);

// Ids of the texts, each padded to the longest that the model takes, as these models are trained.
at::Tensor read_texts(const ModelOptions& options, const BaseModule& module, const std::vector<std::string>& texts);

// Beside the ids [1, T] of a prompt, what generation takes of its images.
PromptInputs image_prompt(const ImageInputs& images, const BaseModule& module, const at::Tensor& input_ids);

// Whether the files have a class that sees images, and one for their text alone.
bool has_text_part(const ModelOptions& options);

}  // namespace easydel::cli

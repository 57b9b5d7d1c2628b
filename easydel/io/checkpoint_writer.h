// Saves a model's tensors under Hugging Face's file names, split into files of a given size.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "easydel/io/safetensors/safetensors_writer.h"

namespace easydel {

struct SaveCheckpointOptions {
  std::string max_shard_size = "5GB";  // of a file's tensors; a larger tensor gets a file of its own
  SafetensorsMetadata metadata;        // in the file beside {"format", "pt"}, or in the index where there are several
};

// Writes model.safetensors, or model-00001-of-0000N.safetensors … and model.safetensors.index.json, into `directory`
// and returns their paths. The split is that of huggingface_hub, in the order of `tensors`.
//
// A process that is killed at any moment leaves the checkpoint that was there before or the new one, whole: new files
// get names that no present index mentions, each is synced, and one rename makes them the checkpoint. Files of the
// earlier checkpoint go only after that. What a killed save leaves behind, the next one removes. Two saves into one
// directory at a time are not supported.
//
// Throws as save_safetensors does, and ConfigError on a max_shard_size that is no size.
std::vector<std::filesystem::path> save_checkpoint(const std::filesystem::path& directory,
                                                   std::vector<TensorInfo> tensors, const TensorProducer& produce,
                                                   const SaveCheckpointOptions& options = {});

// Tensors that are one (the same memory, shape and strides) are written once, under the first of their names; the
// metadata says {"other name", "first name"}, as huggingface_hub's does.
std::vector<std::filesystem::path> save_checkpoint(const std::filesystem::path& directory, const NamedTensors& tensors,
                                                   const SaveCheckpointOptions& options = {});

}  // namespace easydel

// Saves a model's tensors under Hugging Face's file names, split into files of a given size.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "easydel/io/safetensors/safetensors_writer.h"

namespace easydel {

struct SaveCheckpointOptions {
  std::string max_shard_size = "5GB";  // of a file's tensors; a larger tensor gets a separate file
  SafetensorsMetadata metadata;  // in the file next to {"format", "pt"}, or in the index when there are several files
};

// Writes model.safetensors, or model-00001-of-0000N.safetensors … and model.safetensors.index.json, into `directory`
// and returns their paths. The split is that of huggingface_hub, in the order of `tensors`.
//
// A process killed at any moment leaves either the previous checkpoint or the new one, complete: new files get names
// that no existing index mentions, each is synced, and one rename makes them the checkpoint. Only then are the files
// of the previous checkpoint removed. Leftovers of a killed save are removed by the next one. Two concurrent saves
// into one directory are not supported.
//
// Throws as save_safetensors does, and ConfigError on an invalid max_shard_size.
std::vector<std::filesystem::path> save_checkpoint(const std::filesystem::path& directory,
                                                   std::vector<TensorInfo> tensors, const TensorProducer& produce,
                                                   const SaveCheckpointOptions& options = {});

// Tied tensors (the same memory, shape and strides) are written once, under the first of their names; the
// metadata says {"other name", "first name"}, as huggingface_hub's does.
std::vector<std::filesystem::path> save_checkpoint(const std::filesystem::path& directory, const NamedTensors& tensors,
                                                   const SaveCheckpointOptions& options = {});

}  // namespace easydel

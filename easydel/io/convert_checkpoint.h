// Converts any readable checkpoint to safetensors, one tensor in memory at a time.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "easydel/core/dtype.h"
#include "easydel/core/json/json.h"
#include "easydel/io/checkpoint.h"

namespace easydel {

struct ConvertOptions {
  // The new dtype of float64, float32, float16 and bfloat16 tensors. All others keep theirs: types of eight bits and
  // fewer need the scales stored next to them, and integers are not weights.
  std::optional<DType> dtype = std::nullopt;
  std::string max_shard_size = "5GB";
  bool show_progress = false;
  bool overwrite = false;  // replaces an existing destination
  // Dequantizes packed weights when a dtype is given. Called with the quantization_config of config.json, or null;
  // returns the checkpoint itself if nothing is packed. Without it, a packed checkpoint is rejected.
  std::function<std::shared_ptr<const TensorSource>(std::shared_ptr<const Checkpoint>, const Json&)> dequantize = {};
};

// `source` is what Checkpoint::open takes. `destination` is a directory, or a file when it ends in .safetensors. From a
// directory into a directory, config and tokenizer files are copied, and config.json gets the new dtype and loses a
// quantization_config that no longer applies. Tied tensors are written once. Returns the paths of the weights.
//
// Throws ConfigError on a dtype other than the four above, when both paths are the same, when the destination exists
// and is not empty and `overwrite` is not set, or when its extension is that of a format that cannot be written;
// FormatError when there are no tensors; otherwise as Checkpoint::open and save_checkpoint do.
std::vector<std::filesystem::path> convert_checkpoint(const std::filesystem::path& source,
                                                      const std::filesystem::path& destination,
                                                      const ConvertOptions& options = {});

}  // namespace easydel

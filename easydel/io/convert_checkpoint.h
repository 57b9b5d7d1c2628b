// From any checkpoint that can be read to safetensors, one tensor in memory at a time.
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
  // What float64, float32, float16 and bfloat16 tensors become. All others stay: eight bits and fewer mean nothing
  // without the scales that stand beside them, and integers are no weights.
  std::optional<DType> dtype = std::nullopt;
  std::string max_shard_size = "5GB";
  bool show_progress = false;
  bool overwrite = false;  // what stands at the destination
  // Makes packed weights dense, where a dtype is asked for. It gets the quantization_config of config.json, or null,
  // and returns the checkpoint itself where nothing is packed. Without it such a checkpoint is refused.
  std::function<std::shared_ptr<const TensorSource>(std::shared_ptr<const Checkpoint>, const Json&)> dequantize = {};
};

// `source` is what Checkpoint::open takes. `destination` is a directory, or a file when it ends in .safetensors. From a
// directory into a directory, config and tokenizer files come along, and config.json gets the new dtype and loses a
// quantization_config that no longer holds. Tied tensors are written once. Returns the paths of the weights.
//
// Throws ConfigError on a dtype that is none of the four above, when both paths are one, when the destination holds
// something and `overwrite` is not set, or when it ends like a file that is not written; FormatError when there is no
// tensor; else as Checkpoint::open and save_checkpoint do.
std::vector<std::filesystem::path> convert_checkpoint(const std::filesystem::path& source,
                                                      const std::filesystem::path& destination,
                                                      const ConvertOptions& options = {});

}  // namespace easydel

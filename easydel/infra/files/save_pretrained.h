// A model as Hugging Face's files, and on the hub.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "easydel/core/dtype.h"

namespace easydel {

class BaseModule;
struct PushOptions;  // io/hub/hub_push.h

struct SaveOptions {
  std::string max_shard_size = "5GB";
  std::optional<DType> float_dtype = {};  // floats are cast to it on the way
  bool mismatch_allowed = true;           // false: a parameter that is not in dtype param_dtype is an error
  std::optional<int64_t> step = {};       // written into a directory "run-<step>" under the given one
  bool verbose = true;                    // a progress bar
  bool push_to_hub = false;               // what was written goes to the hub, too
  std::string repo_id = {};               // of the repository there; empty: the name of the directory
  std::optional<std::string> token = {};  // for it; absent: the environment's
};

// config.json, safetensors, generation_config.json and the tokenizer's files. On a mesh all ranks call it, and rank 0
// writes.
void save_pretrained(const BaseModule& model, const std::filesystem::path& directory, const SaveOptions& options = {});
// The same files from parameters that the caller has whole, by path.
void write_files(const BaseModule& model, const std::filesystem::path& directory, const SaveOptions& options,
                 const std::function<at::Tensor(const std::string& path)>& whole);
// What save_pretrained writes, as one commit. Returns the address of the repository, or of the pull request.
std::string push_to_hub(const BaseModule& model, const std::string& repo_id, const PushOptions& options,
                        const SaveOptions& save = {});

}  // namespace easydel

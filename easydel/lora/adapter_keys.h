// Between the tensors of an adapter's file, in peft's names, and the parameters of a model.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "easydel/io/tensor_source.h"
#include "easydel/lora/lora_setup.h"

namespace easydel {

struct AdapterTensors {
  struct Layer {
    std::string torch_path;       // what transformers calls the layer
    std::string a, b, magnitude;  // names in the file; magnitude may be empty
    bool is_table = false;        // an Embedding, not a Linear
  };
  std::map<std::string, Layer> layers;       // by the path of the Linear
  std::map<std::string, std::string> saved;  // modules_to_save: parameter's path, name in the file
};

// peft's two files. IoError when one is missing.
struct AdapterFiles {
  LoraConfig config;
  std::shared_ptr<const TensorSource> source;
};
AdapterFiles open_adapter(const std::filesystem::path& directory);

// Finds a place for every tensor. FormatError lists the modules that the model lacks, or those of the config that the
// file lacks; ShapeError lists tensors that do not fit; NotSupportedError names a tensor of another kind.
AdapterTensors find_tensors(const BaseModule& model, const LoraConfig& config, const TensorSource& source);

// Parameter's path and name in the file: of tensors that were found, of an adapter that is to be saved.
std::vector<std::pair<std::string, std::string>> parameter_keys(const LoraAdapter& adapter,
                                                                const AdapterTensors& tensors);
std::vector<std::pair<std::string, std::string>> adapter_file_keys(const BaseModule& model, const LoraAdapter& adapter);

// adapter_config.json, with sorted keys. One that was read is written as it was. Without a name of the base model it is
// the one that the model was loaded by.
Json adapter_json(const BaseModule& model, const LoraAdapter& adapter, const std::string& base_model);

// The two files, from parameters that the caller has whole.
void write_adapter(const BaseModule& model, const std::filesystem::path& directory, const std::string& name,
                   const std::string& base_model, const std::function<at::Tensor(const std::string& path)>& whole);

}  // namespace easydel

// easydel lora: operations on adapters that do not run a model.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <memory>

#include "easydel/cli/commands.h"
#include "easydel/cli/options/model_options.h"
#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/io/hub/hub.h"
#include "easydel/lora/lora.h"

namespace easydel::cli {
namespace {

struct MergeOptions {
  std::string base, adapter, output, dtype;
  std::vector<std::string> more;
  std::string max_shard_size = "5GB";
};

// The dtype that the base is stored in, unless another is given.
std::string stored_dtype(const std::string& base) {
  const auto directory = resolve(base, {.files = {"config.json"}});
  const Json config = Json::parse_file((directory / "config.json").string());
  for (const char* key : {"dtype", "torch_dtype"}) {
    if (const Json* value = config.find(key); value && value->is_string()) return value->as_string();
  }
  return "fp32";
}

void merge(const MergeOptions& options) {
  ModelOptions model_options{.model = options.base, .adapters = {options.adapter}};
  model_options.adapters.insert(model_options.adapters.end(), options.more.begin(), options.more.end());
  model_options.dtype = options.dtype.empty() ? stored_dtype(options.base) : options.dtype;
  const std::filesystem::path output(options.output);
  require<UsageError>(!std::filesystem::exists(output / "config.json"), options.output,
                      " already contains a model. Choose another directory.");
  const std::shared_ptr<BaseModule> model = load(model_options);
  model->unwrap_lora_to_layers();
  model->save_pretrained(output, {.max_shard_size = options.max_shard_size});
  const std::size_t count = model_options.adapters.size();
  std::cout << "merged " << count << (count == 1 ? " adapter" : " adapters") << " into " << options.output << "\n";
}

}  // namespace

void add_lora_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("lora", "Work with LoRA adapters");
  command->require_subcommand(1);
  CLI::App* merging = command->add_subcommand("merge", "Merge an adapter into a model's weights");
  auto options = std::make_shared<MergeOptions>();
  merging->add_option("base", options->base, "A model directory or a model on the Hub")->required()->type_name("BASE");
  merging->add_option("adapter", options->adapter, "An adapter in PEFT format, optionally scaled by a weight")
      ->required()
      ->type_name("ADAPTER[=WEIGHT]");
  merging->add_option("output", options->output, "Directory for the merged model")->required()->type_name("OUT");
  merging->add_option("--and", options->more, "Another adapter to merge; can be repeated")
      ->type_name("ADAPTER[=WEIGHT]")
      ->allow_extra_args(false);
  merging->add_option("--dtype", options->dtype, "Dtype of the merged model (default: the base's)");
  merging->add_option("--max-shard-size", options->max_shard_size, "Maximum size of one file")->capture_default_str();
  merging->callback([options] { merge(*options); });
}

}  // namespace easydel::cli

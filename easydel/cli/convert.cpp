// easydel convert: any checkpoint that can be read becomes safetensors.
#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "easydel/cli/commands.h"
#include "easydel/core/error.h"
#include "easydel/core/text/bytes.h"
#include "easydel/io/convert_checkpoint.h"
#include "easydel/quantization/dense_checkpoint.h"

namespace easydel::cli {
namespace {

struct ConvertArguments {
  std::string source;
  std::string destination;
  std::string dtype;
  std::string max_shard_size = "5GB";
  bool overwrite = false;
};

// CLI11 expects an error message, empty if the text is valid.
template <class Parse>
auto checked_by(Parse parse) {
  return [parse](const std::string& text) {
    try {
      parse(text);
      return std::string();
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
  };
}

void convert(const ConvertArguments& arguments) {
  ConvertOptions options{.max_shard_size = arguments.max_shard_size,
                         .show_progress = true,
                         .overwrite = arguments.overwrite,
                         .dequantize = quantization::open_dense};
  if (!arguments.dtype.empty()) options.dtype = parse_dtype(arguments.dtype);
  const auto paths = [&] {
    try {
      return convert_checkpoint(arguments.source, arguments.destination, options);
    } catch (const ConfigError& error) {  // an invalid value came from the command line
      throw UsageError(error.what());
    }
  }();
  int64_t bytes = 0;
  for (const auto& path : paths) bytes += static_cast<int64_t>(std::filesystem::file_size(path));
  std::cout << "wrote " << format_bytes(bytes) << " in " << paths.size() << (paths.size() == 1 ? " file" : " files")
            << " to " << arguments.destination << "\n";
}

}  // namespace

void add_convert_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("convert", "Convert a checkpoint to safetensors, optionally in another dtype");
  auto arguments = std::make_shared<ConvertArguments>();
  command->add_option("source", arguments->source, "A tensor file or a model directory")->required()->type_name("SRC");
  command->add_option("destination", arguments->destination, "A directory, or a file that ends in .safetensors")
      ->required()
      ->type_name("DST");
  command
      ->add_option("--dtype", arguments->dtype,
                   "Convert floating-point weights to bf16, fp16, fp32 or fp64; quantized ones "
                   "(bitsandbytes, FP8, MXFP4, GPTQ, AWQ, compressed-tensors, HQQ, torchao) are dequantized")
      ->check(checked_by([](const std::string& text) { parse_dtype(text); }));
  CLI::Option* shard_size =
      command->add_option("--max-shard-size", arguments->max_shard_size, "Maximum size of one file of a directory")
          ->check(checked_by([](const std::string& text) { parse_bytes(text); }))
          ->capture_default_str();
  command->add_flag("--overwrite", arguments->overwrite, "Overwrite an existing DST");
  command->callback([arguments, shard_size] {
    const bool is_one_file = std::filesystem::path(arguments->destination).extension() == ".safetensors";
    require<UsageError>(!is_one_file || shard_size->count() == 0, "--max-shard-size ", arguments->max_shard_size,
                        " splits weights over the files of a directory; ", arguments->destination,
                        " is one file. Use a directory, or omit --max-shard-size.");
    convert(*arguments);
  });
}

}  // namespace easydel::cli

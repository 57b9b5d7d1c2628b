// easydel convert: any checkpoint that can be read becomes safetensors.
#include <ATen/ATen.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "easydel/cli/commands.h"
#include "easydel/cli/terminal/help.h"
#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/core/text/bytes.h"
#include "easydel/infra/files/companions.h"
#include "easydel/infra/files/gguf_model.h"
#include "easydel/io/checkpoint_writer.h"
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

bool names_a_file(const std::filesystem::path& path) {
  for (const char* suffix : {".safetensors", ".gguf", ".bin", ".pt", ".pth"}) {
    if (path.extension() == suffix) return true;
  }
  return false;
}

// A GGUF file as a model directory: Hugging Face's names, dense weights, config.json and the tokenizer.
std::vector<std::filesystem::path> convert_gguf_model(const std::filesystem::path& gguf,
                                                      const ConvertArguments& arguments,
                                                      const ConvertOptions& options) {
  const std::filesystem::path out = arguments.destination;
  std::error_code ignored;
  const bool is_taken = std::filesystem::is_directory(out, ignored) ? !std::filesystem::is_empty(out, ignored)
                                                                    : std::filesystem::exists(out, ignored);
  require<UsageError>(arguments.overwrite || !is_taken, out.string(),
                      " already exists. Choose another path, or pass --overwrite.");
  Json config = gguf_config(*GgufFile::open(gguf));
  config.as_object().erase("quantization_config");
  const auto tensors = GgufModel::open(gguf, /*keeps_codes=*/false);
  std::vector<TensorInfo> infos = tensors->infos();
  for (TensorInfo& info : infos) {
    if (options.dtype) info.dtype = *options.dtype;
  }
  config["dtype"] = dtype_name(infos.front().dtype);
  const auto paths = save_checkpoint(out, std::move(infos),
                                     [&](const TensorInfo& info) { return tensors->tensor(info.name).to(info.dtype); },
                                     {.max_shard_size = options.max_shard_size});
  write_file_atomically(out / "config.json", config.dump(2) + "\n");
  Companions::read(gguf).write(out);
  return paths;
}

void convert(const ConvertArguments& arguments) {
  ConvertOptions options{.max_shard_size = arguments.max_shard_size,
                         .show_progress = true,
                         .overwrite = arguments.overwrite,
                         .dequantize = quantization::open_dense};
  if (!arguments.dtype.empty()) options.dtype = parse_dtype(arguments.dtype);
  const auto paths = [&] {
    try {
      if (const auto gguf = names_a_file(arguments.destination) ? std::nullopt : find_gguf(arguments.source))
        return convert_gguf_model(*gguf, arguments, options);
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
      command
          ->add_option("--max-shard-size", arguments->max_shard_size, "Maximum size of a shard, if DST is a directory")
          ->check(checked_by([](const std::string& text) { parse_bytes(text); }))
          ->capture_default_str();
  command->add_flag("--overwrite", arguments->overwrite, "Overwrite an existing DST");
  command->footer(
      help_examples({"convert pytorch_model.bin model.safetensors --dtype bf16", "convert model.gguf OUT"}));
  command->callback([arguments, shard_size] {
    const bool is_one_file = std::filesystem::path(arguments->destination).extension() == ".safetensors";
    require<UsageError>(!is_one_file || shard_size->count() == 0, "--max-shard-size ", arguments->max_shard_size,
                        " applies only to a directory; ", arguments->destination,
                        " is one file. Use a directory, or omit --max-shard-size.");
    convert(*arguments);
  });
}

}  // namespace easydel::cli

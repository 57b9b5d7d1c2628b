// easydel quantize: writes a model with quantized weights and prints the savings and the error.
#include <CLI/CLI.hpp>
#include <cmath>
#include <iomanip>
#include <iostream>
#include <memory>

#include "easydel/cli/commands.h"
#include "easydel/cli/options/model_options.h"
#include "easydel/cli/terminal/console.h"
#include "easydel/cli/terminal/help.h"
#include "easydel/cli/terminal/text.h"
#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/core/text/bytes.h"
#include "easydel/infra/files/gguf_export.h"
#include "easydel/io/checkpoint.h"
#include "easydel/io/gguf/gguf_file.h"
#include "easydel/io/hub/hub.h"
#include "easydel/quantization/calibrate.h"
#include "easydel/quantization/dense_checkpoint.h"
#include "easydel/quantization/method.h"
#include "easydel/quantization/writers/awq.h"
#include "easydel/quantization/writers/write_model.h"
#include "easydel/trainers/objectives/score.h"

namespace easydel::cli {
namespace {

struct QuantizeArguments {
  ModelOptions model;
  QuantizeOptions quantize{.method = "nf4"};
  std::string output, calibration, text;
  std::string format, type;
  int64_t calibration_tokens = 8192;
  bool overwrite = false;
  bool json = false;
};

std::vector<int64_t> tokens_of(const std::string& path, const QuantizeArguments& options) {
  const std::optional<AutoTokenizer> tokenizer = load_tokenizer(options.model);
  require<ConfigError>(tokenizer.has_value(), "[easydel quantize] ", options.model.model,
                       " has no tokenizer.json or tokenizer.model to encode ", path, " with.");
  const std::vector<int32_t> ids = (*tokenizer)->encode_ids(read_file(path));
  require<ConfigError>(ids.size() >= 2, "[easydel quantize] ", path, " has ", ids.size(),
                       " tokens; at least two are needed.");
  return {ids.begin(), ids.end()};
}

double perplexity(const BaseModule& model, const std::vector<int64_t>& ids) {
  const TextScore score = score_text(model, ids, {.show_progress = false});
  return std::exp(score.nll / static_cast<double>(score.tokens));
}

std::string percent(double value) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(3) << 100 * value << " %";
  return out.str();
}

void check_output(const std::filesystem::path& output, bool overwrite, bool is_gguf) {
  std::error_code ignored;
  require<UsageError>((output.extension() == ".gguf") == is_gguf,
                      is_gguf ? "--format gguf needs an output file that ends in .gguf; got "
                              : "an output file that ends in .gguf needs --format gguf; got ",
                      output.string(), ".");
  const bool is_taken = std::filesystem::is_directory(output, ignored) ? !std::filesystem::is_empty(output, ignored)
                                                                       : std::filesystem::exists(output, ignored);
  require<UsageError>(overwrite || !is_taken, output.string(),
                      " already exists. Choose another directory, or pass --overwrite.");
}

struct WrittenReport {
  int64_t before = 0, after = 0;  // bytes
  double old_perplexity = 0, new_perplexity = 0;
};

void print_report(const QuantizeArguments& options, const WrittenReport& report) {
  if (options.json) {
    Json json = Json::object({{"format", options.format}, {"type", options.type}});
    json["bytes_before"] = report.before;
    json["bytes_after"] = report.after;
    if (!options.text.empty()) {
      json["perplexity_before"] = report.old_perplexity;
      json["perplexity_after"] = report.new_perplexity;
    }
    return print_json(json);
  }
  std::cout << format_bytes(report.before) << " -> " << format_bytes(report.after) << " ("
            << percent(static_cast<double>(report.after) / static_cast<double>(report.before)) << "), in "
            << options.output << "\n";
  if (!options.text.empty())
    std::cout << "perplexity of " << options.text << ": " << report.old_perplexity << ", now " << report.new_perplexity
              << " (" << (report.new_perplexity >= report.old_perplexity ? "+" : "")
              << percent(report.new_perplexity / report.old_perplexity - 1) << ")\n";
}

int64_t bytes_of(const std::filesystem::path& path) {
  if (!std::filesystem::is_directory(path)) return static_cast<int64_t>(std::filesystem::file_size(path));
  int64_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    if (entry.path().extension() == ".safetensors") bytes += static_cast<int64_t>(entry.file_size());
  }
  return bytes;
}

std::shared_ptr<BaseModule> load_one(const QuantizeArguments& options, const std::string& model) {
  LoadOptions loading = to_load_options(options.model);
  loading.sharding.auto_shard_model = false;  // regardless of the mesh it was trained on
  return load_model(model, parse_task(options.model.task), loading);
}

void refuse_quantized(const BaseModule& model, const QuantizeArguments& options) {
  require<ConfigError>(!is_quantized(model), "[easydel quantize] ", options.model.model,
                       " is already quantized. Quantize the original model, or a dense copy that easydel convert ",
                       options.model.model, " OUT --dtype bf16 writes.");
}

// The weights are read from files and written one at a time; a model is loaded for its perplexity alone.
void run_gguf(const QuantizeArguments& options) {
  const std::string type = options.type.empty() ? "Q8_0" : options.type;
  const auto directory = resolve(options.model.model, {.revision = options.model.revision});
  require<UsageError>(!find_gguf(directory), options.model.model, " is already a GGUF file.");
  const Json config = Json::parse_file((directory / "config.json").string());
  const Json* packed = config.find("quantization_config");
  const auto tensors = quantization::open_dense(Checkpoint::open(directory), packed ? *packed : Json());
  export_gguf(config, *tensors, directory, type, options.output);
  WrittenReport report{tensors->nbytes(), bytes_of(options.output)};
  if (!options.text.empty()) {
    const std::vector<int64_t> text = tokens_of(options.text, options);
    report.old_perplexity = perplexity(*load_one(options, options.model.model), text);
    report.new_perplexity = perplexity(*load_one(options, options.output), text);
  }
  print_report(options, report);
}

void run_format(const QuantizeArguments& options) {
  const bool compressed = options.format == "compressed-tensors";
  const quantization::FormatChoice choice{options.format, compressed && options.type.empty() ? "int4" : options.type,
                                          options.quantize.group_size};
  const auto format = quantization::make_written_format(choice);
  using Text = quantization::WrittenFormat::Text;
  require<UsageError>(format->text() != Text::Needed || !options.calibration.empty(), "--format ", options.format,
                      " needs calibration text. Give it with --calibrate FILE.");
  require<UsageError>(format->text() != Text::Unused || options.calibration.empty(), "--calibrate ",
                      options.calibration, ": --format ", options.format, choice.scheme.empty() ? "" : " --type ",
                      choice.scheme,
                      " needs no calibration. Omit --calibrate, or use gptq, awq or compressed-tensors with int4.");
  const std::vector<int64_t> text = options.text.empty() ? std::vector<int64_t>() : tokens_of(options.text, options);
  const std::vector<int64_t> sample =
      options.calibration.empty() ? std::vector<int64_t>() : tokens_of(options.calibration, options);
  const std::shared_ptr<BaseModule> model = load_one(options, options.model.model);
  refuse_quantized(*model, options);
  WrittenReport report{parameter_bytes(*model), 0};
  if (!text.empty()) report.old_perplexity = perplexity(*model, text);
  QuantizeOptions wanted = options.quantize;
  wanted.method = "8bit";  // of those that pack experts too
  const std::vector<std::string> layers = layers_to_quantize(*model, wanted);
  quantization::Hessians hessians;
  if (!sample.empty()) hessians = quantization::layer_hessians(*model, sample, options.calibration_tokens);
  if (options.format == "awq")
    quantization::scale_for_awq(*model, hessians, choice.group_size == 0 ? 128 : choice.group_size);
  quantization::write_packed_model(*model, layers, *format, hessians, options.output);
  report.after = bytes_of(options.output);
  if (!text.empty()) report.new_perplexity = perplexity(*load_one(options, options.output), text);
  print_report(options, report);
}

void run(const QuantizeArguments& options) {
  check_output(options.output, options.overwrite, options.format == "gguf");
  if (options.format == "gguf") return run_gguf(options);
  if (!options.format.empty() && options.format != "bitsandbytes" && options.format != "easydel")
    return run_format(options);
  const QuantizeOptions& asked = options.quantize;
  require<UsageError>(options.format != "bitsandbytes" || asked.method == "nf4" || asked.method == "8bit",
                      "--format bitsandbytes supports the methods nf4 and 8bit; got ", asked.method, ".");
  const bool calibrates = quantization::make_method(asked)->needs_calibration();
  require<UsageError>(!calibrates || !options.calibration.empty(), "--method ", asked.method,
                      " needs calibration text. Give it with --calibrate FILE.");
  require<UsageError>(calibrates || options.calibration.empty(), "--calibrate ", options.calibration, ": --method ",
                      asked.method, " needs no calibration. Omit --calibrate, or use a8bit or a4q.");
  const std::vector<int64_t> text = options.text.empty() ? std::vector<int64_t>() : tokens_of(options.text, options);
  const std::vector<int64_t> sample =
      options.calibration.empty() ? std::vector<int64_t>() : tokens_of(options.calibration, options);
  const std::shared_ptr<BaseModule> model = load_one(options, options.model.model);
  refuse_quantized(*model, options);
  const int64_t before = parameter_bytes(*model);
  const double old_perplexity = text.empty() ? 0 : perplexity(*model, text);
  QuantizeOptions wanted = options.quantize;
  if (!sample.empty()) wanted.calibration = calibrate(*model, sample, {.max_tokens = options.calibration_tokens});
  const auto dense = dense_weights(*model, layers_to_quantize(*model, wanted));
  model->quantize(wanted);
  const std::vector<LayerError> errors = layer_errors(*model, dense);
  const int64_t after = parameter_bytes(*model);
  const double new_perplexity = text.empty() ? 0 : perplexity(*model, text);
  model->save_pretrained(options.output, {.verbose = false});

  if (options.json) {
    Json layers = Json::object();
    for (const LayerError& error : errors) layers[error.path] = error.relative;
    Json report = Json::object({{"method", wanted.method}, {"bytes_before", before}, {"bytes_after", after}});
    report["layers"] = layers;
    if (!text.empty()) {
      report["perplexity_before"] = old_perplexity;
      report["perplexity_after"] = new_perplexity;
    }
    return print_json(report);
  }
  std::vector<std::vector<std::string>> rows{{"layer", "relative error"}};
  for (const LayerError& error : errors) rows.push_back({error.path, percent(error.relative)});
  print_table(rows);
  std::cout << "\n"
            << format_bytes(before) << " -> " << format_bytes(after) << " ("
            << percent(static_cast<double>(after) / static_cast<double>(before)) << "), in " << options.output << "\n";
  if (!text.empty())
    std::cout << "perplexity of " << options.text << ": " << old_perplexity << ", now " << new_perplexity << " ("
              << (new_perplexity >= old_perplexity ? "+" : "") << percent(new_perplexity / old_perplexity - 1) << ")\n";
}

}  // namespace

void add_quantize_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("quantize", "Quantize a model's weights to 8 or 4 bits");
  auto options = std::make_shared<QuantizeArguments>();
  options->model.device = "cpu";
  options->model.dtype = "fp32";
  command->add_option("model", options->model.model, "A model directory or a model on the Hub")
      ->required()
      ->type_name("MODEL");
  command->add_option("output", options->output, "Directory for the quantized model, or a file that ends in .gguf")
      ->required()
      ->type_name("OUT");
  CLI::Option* method =
      command->add_option("--method", options->quantize.method, "8bit, nf4, int4, a8bit, a8q, a4q, fp8, mxfp4 or uint4")
          ->capture_default_str();
  command
      ->add_option("--format", options->format,
                   "Format of the files: gguf, compressed-tensors, fp8, gptq, awq, bitsandbytes or easydel (default: "
                   "bitsandbytes for nf4 and 8bit, easydel for the other methods)")
      ->check(CLI::IsMember({"gguf", "compressed-tensors", "fp8", "gptq", "awq", "bitsandbytes", "easydel"}));
  CLI::Option* type = command->add_option("--type", options->type,
                                          "For gguf: F32, F16, BF16, Q8_0, Q4_0, Q4_K_M or Q6_K (default: Q8_0); for "
                                          "compressed-tensors: int4, int8 or fp8 (default: int4)");
  command->add_option("--group-size", options->quantize.group_size,
                      "Quantization group size: columns that share a scale (default: the method's; 64 for nf4)");
  command->add_flag("--double-quant", options->quantize.double_quant, "Also quantize the scales of nf4");
  command->add_option(
      "--pattern", options->quantize.pattern,
      "Regular expression for the paths of the layers to quantize (default: all linear layers except heads)");
  command
      ->add_option("--target", options->quantize.bit_targeted_params,
                   "Kinds of weights to quantize: kernel, embedding (default: kernel, or what the pattern matches)")
      ->delimiter(',');
  command
      ->add_option("--calibrate", options->calibration,
                   "Text file for calibration, required by a8bit, a4q, gptq and awq; compressed-tensors with int4 then "
                   "rounds as gptq does")
      ->type_name("FILE");
  CLI::Option* calibration_tokens =
      command->add_option("--calibration-tokens", options->calibration_tokens, "Maximum number of calibration tokens")
          ->check(CLI::Range(int64_t{1}, int64_t{1} << 40))
          ->capture_default_str();
  command->add_option("--text", options->text, "Text file whose perplexity is printed before and after quantization")
      ->type_name("FILE");
  CLI::Option* dtype =
      command->add_option("--dtype", options->model.dtype, "Dtype of the weights that are not quantized")
          ->capture_default_str();
  CLI::Option* task =
      command->add_option("--task", options->model.task, "causal-lm, base-module, sequence-classification or auto-bind")
          ->capture_default_str();
  command->add_option("--revision", options->model.revision, "Branch, tag or commit on the Hub")->capture_default_str();
  command->add_flag("--overwrite", options->overwrite, "Overwrite an existing OUT");
  command->add_flag("--json", options->json, "Print JSON");
  command->footer(
      help_examples({"quantize MODEL OUT --method nf4", "quantize MODEL OUT.gguf --format gguf --type Q4_K_M",
                     "quantize MODEL OUT --format gptq --calibrate text.txt"}));
  command->callback([options, calibration_tokens, method, type, dtype, task] {
    const bool by_method = options->format.empty() || options->format == "bitsandbytes" || options->format == "easydel";
    const bool has_types = options->format == "gguf" || options->format == "compressed-tensors";
    require<UsageError>(by_method || method->count() == 0, "--method ", options->quantize.method,
                        " is not supported with --format ", options->format,
                        ", which determines the method. Leave one of them out.");
    require<UsageError>(has_types || type->count() == 0, "--type ", options->type,
                        " applies only to --format gguf and compressed-tensors. Leave it out.");
    require<UsageError>(by_method || (!options->quantize.double_quant && options->quantize.bit_targeted_params.empty()),
                        "--double-quant and --target are not supported with --format ", options->format, ".");
    require<UsageError>(
        options->format != "gguf" ||
            (options->quantize.pattern.empty() && options->quantize.group_size == 0 && options->calibration.empty()),
        "--pattern, --group-size and --calibrate are not supported with --format gguf, where --type determines "
        "everything.");
    for (const CLI::Option* given : {dtype, task}) {
      require<UsageError>(options->format != "gguf" || given->count() == 0, given->get_name(),
                          " is not supported with --format gguf, where --type determines everything.");
    }
    require<UsageError>(calibration_tokens->count() == 0 || !options->calibration.empty(), "--calibration-tokens ",
                        options->calibration_tokens, " needs calibration text. Give it with --calibrate FILE.");
    run(*options);
  });
}

}  // namespace easydel::cli

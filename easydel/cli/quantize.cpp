// easydel quantize: writes a model with quantized weights and prints the savings and the error.
#include <CLI/CLI.hpp>
#include <cmath>
#include <iomanip>
#include <iostream>
#include <memory>

#include "easydel/cli/commands.h"
#include "easydel/cli/options/model_options.h"
#include "easydel/cli/terminal/console.h"
#include "easydel/cli/terminal/text.h"
#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/core/text/bytes.h"
#include "easydel/quantization/calibrate.h"
#include "easydel/quantization/method.h"
#include "easydel/trainers/objectives/score.h"

namespace easydel::cli {
namespace {

struct QuantizeArguments {
  ModelOptions model;
  QuantizeOptions quantize{.method = "nf4"};
  std::string output, calibration, text;
  int64_t calibration_tokens = 8192;
  bool overwrite = false;
  bool json = false;
};

std::vector<int64_t> tokens_of(const std::string& path, const QuantizeArguments& options) {
  const std::optional<AutoTokenizer> tokenizer = load_tokenizer(options.model);
  require<ConfigError>(tokenizer.has_value(), "[easydel quantize] ", options.model.model,
                       " has no tokenizer.json or tokenizer.model to read ", path, " with.");
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

void check_output(const std::filesystem::path& output, bool overwrite) {
  std::error_code ignored;
  require<UsageError>(output.extension() != ".gguf", "GGUF files are not written; got ", output.string(),
                      ". Give a directory.");
  const bool is_taken = std::filesystem::is_directory(output, ignored) ? !std::filesystem::is_empty(output, ignored)
                                                                       : std::filesystem::exists(output, ignored);
  require<UsageError>(overwrite || !is_taken, output.string(),
                      " already exists. Choose another directory, or give --overwrite.");
}

void run(const QuantizeArguments& options) {
  check_output(options.output, options.overwrite);
  const QuantizeOptions& asked = options.quantize;
  const bool calibrates =
      quantization::make_method({asked.method, asked.group_size, asked.double_quant})->needs_calibration();
  require<UsageError>(!calibrates || !options.calibration.empty(), "--method ", asked.method,
                      " needs calibration text. Give it with --calibrate FILE.");
  require<UsageError>(calibrates || options.calibration.empty(), "--calibrate ", options.calibration, ": --method ",
                      asked.method, " needs no calibration. Omit --calibrate, or use a8bit or a4q.");
  const std::vector<int64_t> text = options.text.empty() ? std::vector<int64_t>() : tokens_of(options.text, options);
  const std::vector<int64_t> sample =
      options.calibration.empty() ? std::vector<int64_t>() : tokens_of(options.calibration, options);
  LoadOptions loading = to_load_options(options.model);
  loading.auto_shard_model = false;  // regardless of the mesh it was trained on
  const std::shared_ptr<BaseModule> model = load_model(options.model.model, parse_task(options.model.task), loading);
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
            << format_bytes(before) << " are now " << format_bytes(after) << " ("
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
  command->add_option("output", options->output, "Directory for the quantized model")->required()->type_name("OUT");
  command->add_option("--method", options->quantize.method, "8bit, nf4, int4, a8bit, a8q or a4q")
      ->capture_default_str();
  command->add_option("--group-size", options->quantize.group_size,
                      "Columns that share a scale (default: the method's own, 64 for nf4)");
  command->add_flag("--double-quant", options->quantize.double_quant, "Also quantize the scales of nf4");
  command->add_option(
      "--pattern", options->quantize.pattern,
      "Regular expression for the paths of the layers to quantize (default: all linear layers but heads)");
  command
      ->add_option("--target", options->quantize.bit_targeted_params,
                   "Kinds of weights to quantize: kernel, embedding (default: kernel, or what the pattern matches)")
      ->delimiter(',');
  command->add_option("--calibrate", options->calibration, "Text file for calibration, required by a8bit and a4q")
      ->type_name("FILE");
  CLI::Option* calibration_tokens =
      command->add_option("--calibration-tokens", options->calibration_tokens, "Maximum number of calibration tokens")
          ->check(CLI::Range(int64_t{1}, int64_t{1} << 40))
          ->capture_default_str();
  command->add_option("--text", options->text, "Text file whose perplexity is printed before and after")
      ->type_name("FILE");
  command->add_option("--dtype", options->model.dtype, "Dtype of the weights that are not quantized")
      ->capture_default_str();
  command->add_option("--task", options->model.task, "causal-lm, base-module, sequence-classification or auto-bind")
      ->capture_default_str();
  command->add_option("--revision", options->model.revision, "Branch, tag or commit on the Hub")->capture_default_str();
  command->add_flag("--overwrite", options->overwrite, "Overwrite an existing OUT");
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([options, calibration_tokens] {
    require<UsageError>(calibration_tokens->count() == 0 || !options->calibration.empty(), "--calibration-tokens ",
                        options->calibration_tokens, " limits what is read of a text. Give one with --calibrate FILE.");
    run(*options);
  });
}

}  // namespace easydel::cli

// easydel quantize: a model's weights as codes and scales, with what that saves and what it costs.
#include <CLI/CLI.hpp>
#include <cmath>
#include <iomanip>
#include <iostream>
#include <memory>

#include "easydel/cli/commands.h"
#include "easydel/cli/console.h"
#include "easydel/cli/model_options.h"
#include "easydel/cli/text.h"
#include "easydel/core/bytes.h"
#include "easydel/core/error.h"
#include "easydel/core/file.h"
#include "easydel/io/hub.h"
#include "easydel/quantization/calibrate.h"
#include "easydel/quantization/method.h"
#include "easydel/trainers/checkpoints.h"
#include "easydel/trainers/score.h"

namespace easydel::cli {
namespace {

struct Options {
  ModelOptions model;
  QuantizeOptions quantize{.method = "nf4"};
  std::string output, calibration, text;
  int64_t calibration_tokens = 8192;
  bool overwrite = false;
  bool json = false;
};

std::vector<int64_t> tokens_of(const std::string& path, const Options& options) {
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
                      ". Name a directory.");
  const bool is_taken = std::filesystem::is_directory(output, ignored) ? !std::filesystem::is_empty(output, ignored)
                                                                       : std::filesystem::exists(output, ignored);
  require<UsageError>(overwrite || !is_taken, output.string(),
                      " is there already. Name another directory, or give --overwrite.");
}

void run(const Options& options) {
  check_output(options.output, options.overwrite);
  const QuantizeOptions& asked = options.quantize;
  const bool calibrates =
      quantization::make_method({asked.method, asked.group_size, asked.double_quant})->needs_calibration();
  require<UsageError>(!calibrates || !options.calibration.empty(), "--method ", asked.method,
                      " needs a text that the model reads first. Give one with --calibrate FILE.");
  const std::vector<int64_t> text = options.text.empty() ? std::vector<int64_t>() : tokens_of(options.text, options);
  const std::vector<int64_t> sample =
      options.calibration.empty() ? std::vector<int64_t>() : tokens_of(options.calibration, options);
  LoadOptions loading = to_load_options(options.model);
  loading.auto_shard_model = false;  // whatever mesh it was trained on
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
  copy_tokenizer_files(resolve(options.model.model, {.revision = options.model.revision}), options.output);

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
  CLI::App* command = app.add_subcommand("quantize", "Write a model with its weights in 8 or 4 bits");
  auto options = std::make_shared<Options>();
  options->model.device = "cpu";
  options->model.dtype = "fp32";
  command->add_option("model", options->model.model, "A model directory, or the name of one on the hub")
      ->required()
      ->type_name("MODEL");
  command->add_option("output", options->output, "A directory for the quantized model")->required()->type_name("OUT");
  command->add_option("--method", options->quantize.method, "8bit, nf4, int4, a8bit, a8q or a4q")
      ->capture_default_str();
  command->add_option("--group-size", options->quantize.group_size,
                      "Columns that share a scale (default: the method's own, 64 for nf4)");
  command->add_flag("--double-quant", options->quantize.double_quant, "Scales of nf4 as codes too");
  command->add_option("--pattern", options->quantize.pattern,
                      "Layers whose path has this regular expression (default: all linear layers but heads)");
  command
      ->add_option("--target", options->quantize.bit_targeted_params,
                   "kernel, embedding: which kinds of weights (default: kernel, or what the pattern finds)")
      ->delimiter(',');
  command->add_option("--calibrate", options->calibration, "A text that the model reads first; a8bit and a4q need one")
      ->type_name("FILE");
  CLI::Option* calibration_tokens =
      command->add_option("--calibration-tokens", options->calibration_tokens, "The most that are read of it")
          ->check(CLI::Range(int64_t{1}, int64_t{1} << 40))
          ->capture_default_str();
  command->add_option("--text", options->text, "A text whose perplexity is printed before and after")
      ->type_name("FILE");
  command->add_option("--dtype", options->model.dtype, "What weights that stay dense are stored in")
      ->capture_default_str();
  command->add_option("--task", options->model.task, "causal-lm, base-module, sequence-classification or auto-bind")
      ->capture_default_str();
  command->add_option("--revision", options->model.revision, "Branch, tag or commit on the hub")->capture_default_str();
  command->add_flag("--overwrite", options->overwrite, "Replace what stands at OUT");
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([options, calibration_tokens] {
    require<UsageError>(calibration_tokens->count() == 0 || !options->calibration.empty(), "--calibration-tokens ",
                        options->calibration_tokens, " limits what is read of a text. Give one with --calibrate FILE.");
    run(*options);
  });
}

}  // namespace easydel::cli

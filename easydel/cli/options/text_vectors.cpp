#include "easydel/cli/options/text_vectors.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <utility>

#include "easydel/cli/terminal/text.h"
#include "easydel/core/error.h"
#include "easydel/core/json/json.h"
#include "easydel/infra/config/auto_config.h"
#include "easydel/infra/registry.h"
#include "easydel/io/hub/hub.h"
#include "easydel/trainers/objectives/embedding/embedding_loss.h"

namespace easydel::cli {
namespace fs = std::filesystem;
namespace {

constexpr std::array<std::pair<const char*, const char*>, 5> kModes{
    {{"pooling_mode_cls_token", "first"},
     {"pooling_mode_mean_tokens", "mean"},
     {"pooling_mode_max_tokens", "max"},
     {"pooling_mode_weightedmean_tokens", "weighted_mean"},
     {"pooling_mode_lasttoken", "last"}}};

Json read_json(const fs::path& file, bool is_right(const Json&), const char* what) {
  Json json = Json::parse_file(file.string());
  require<FormatError>(is_right(json), "[embed] ", file.string(), " must be ", what, "; got ", json.type_name(), ".");
  return json;
}

std::string strategy_in(const fs::path& file) {
  const Json json = read_json(file, [](const Json& j) { return j.is_object(); }, "an object");
  std::vector<std::string> found;
  for (const auto& [key, strategy] : kModes) {
    const Json* mode = json.find(key);
    if (mode && *mode == Json(true)) found.emplace_back(strategy);
  }
  require<NotSupportedError>(found.size() == 1, "[embed] ", file.string(), " must say one pooling that is known here, ",
                             "first, last, mean, weighted_mean or max; got ", found.size(),
                             ". --pooling says one in its place.");
  return found.front();
}

}  // namespace

bool reads_text_alone(const ModelOptions& options) {
  const auto directory = resolve(options.model, {.revision = options.revision, .files = {"config.json"}});
  if (!fs::exists(directory / "config.json")) return false;
  const auto config = AutoConfig::from_pretrained(directory.string());
  if (config->is_encoder_decoder) return false;
  const std::vector<TaskType> tasks = Registry::instance().tasks(std::string(config->model_type()));
  return std::none_of(tasks.begin(), tasks.end(), [](TaskType task) {
    return task == TaskType::VisionModule || task == TaskType::ZeroShotImageClassification ||
           task == TaskType::ImageTextToText || task == TaskType::SpeechSequenceToSequence;
  });
}

TextPooling text_pooling(const fs::path& directory, const std::string& given) {
  TextPooling pooling{.strategy = given.empty() ? "mean" : given};
  const fs::path file = directory / "modules.json";
  if (!fs::exists(file)) return pooling;
  const Json modules = read_json(file, [](const Json& j) { return j.is_array(); }, "a list");
  for (const Json& module : modules.as_array()) {
    const Json *type = module.find("type"), *path = module.find("path");
    require<FormatError>(type && type->is_string() && path && path->is_string(), "[embed] ", file.string(),
                         ": a module must have a type and a path; got ", module.dump(), ".");
    const std::string& name = type->as_string();
    const std::string kind = name.substr(name.rfind('.') + 1);
    if (kind == "Pooling" && given.empty())
      pooling.strategy = strategy_in(directory / path->as_string() / "config.json");
    pooling.normalizes = pooling.normalizes || kind == "Normalize";
    require<NotSupportedError>(kind == "Pooling" || kind == "Normalize" || kind == "Transformer", "[embed] ",
                               file.string(), ": modules are Transformer, Pooling and Normalize; got ", name, ".");
  }
  return pooling;
}

std::vector<ModelInputs> inputs_of_texts(const char* command, const ModelOptions& options, const BaseModule& module,
                                         const std::vector<std::string>& texts) {
  const std::optional<AutoTokenizer> tokenizer = load_tokenizer(options);
  require<NotSupportedError>(tokenizer.has_value(), "[", command, "] ", options.model,
                             " has no tokenizer that this build can read.");
  const int64_t most = module.config().max_position_embeddings;
  std::vector<ModelInputs> all;
  for (const std::string& text : texts) {
    const std::vector<int32_t> ids = (*tokenizer)->encode_ids(text);
    const auto count = static_cast<int64_t>(ids.size());
    require<ConfigError>(count > 0 && (most <= 0 || count <= most), "[", command, "] a text must have 1 to ", most,
                         " tokens; got ", count, ": \"", text, "\".");
    all.emplace_back().input_ids = at::tensor(ids, at::kInt).to(module.options().device, at::kLong).unsqueeze(0);
  }
  return all;
}

at::Tensor text_vectors(const ModelOptions& options, const BaseModule& module, const std::vector<std::string>& texts,
                        const TextPooling& pooling) {
  std::vector<at::Tensor> rows;
  for (const ModelInputs& inputs : inputs_of_texts("embed", options, module, texts)) {
    const at::Tensor states = module(inputs).last_hidden_state;
    require<NotSupportedError>(states.defined(), "[embed] ", module.type_name(),
                               " gives no states of tokens. Load its base model with --task embedding.");
    rows.push_back(pool_tokens(states.to(at::kFloat), at::ones_like(inputs.input_ids), pooling.strategy));
  }
  at::Tensor vectors = at::cat(rows);
  if (pooling.normalizes) vectors = vectors / vectors.norm(2, {-1}, /*keepdim=*/true).clamp_min(1e-12);
  return vectors;
}

}  // namespace easydel::cli

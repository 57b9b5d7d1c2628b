#include "easydel/cli/options/image_inputs.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "easydel/cli/terminal/text.h"
#include "easydel/core/error.h"
#include "easydel/infra/config/auto_config.h"
#include "easydel/infra/decoder/accepts_images.h"
#include "easydel/infra/registry.h"
#include "easydel/io/hub/hub.h"
#include "easydel/processors/vision_processor.h"

namespace easydel::cli {

at::Tensor read_images(const ModelOptions& options, const std::vector<std::string>& files) {
  const ImageProcessor processor = AutoImageProcessor::from_pretrained(options.model, {.revision = options.revision});
  std::vector<at::Tensor> images;
  for (const std::string& file : files) images.push_back(processor.load(file));
  return processor(images);
}

at::Tensor read_texts(const ModelOptions& options, const BaseModule& module, const std::vector<std::string>& texts) {
  const std::optional<AutoTokenizer> tokenizer = load_tokenizer(options);
  require<NotSupportedError>(tokenizer.has_value(), "[texts] ", options.model,
                             " has no tokenizer that this build can read.");
  const int64_t length = module.config().max_position_embeddings;
  const std::optional<std::string> pad_token = tokenizer->config().special_token("pad_token");
  const std::optional<int32_t> pad = pad_token ? (*tokenizer)->token_to_id(*pad_token) : std::nullopt;
  require<ConfigError>(pad.has_value(), "[texts] the tokenizer of ", options.model, " needs a pad_token; got none.");
  at::Tensor ids = at::full({static_cast<int64_t>(texts.size()), length}, *pad, at::kLong);
  for (std::size_t row = 0; row < texts.size(); ++row) {
    const std::vector<int32_t> tokens = (*tokenizer)->encode_ids(texts[row]);
    const auto count = static_cast<int64_t>(tokens.size());
    require<ConfigError>(count <= length, "[texts] a text may have at most ", length, " tokens; got ", count, ": \"",
                         texts[row], "\".");
    ids[static_cast<int64_t>(row)].narrow(0, 0, count).copy_(at::tensor(tokens, at::kInt));
  }
  return ids;
}

PromptInputs image_prompt(const ImageInputs& images, const BaseModule& module, const at::Tensor& input_ids) {
  const auto* seeing = dynamic_cast<const AcceptsImages*>(&module);
  require<ConfigError>(seeing != nullptr, "[images] ", module.type_name(), " does not accept images.");
  PromptInputs inputs{.pixel_values = images.pixel_values,
                      .image_sizes = images.image_sizes,
                      .pixel_attention_mask = images.pixel_attention_mask,
                      .image_grid_thw = images.image_grid_thw,
                      .pixel_values_videos = images.pixel_values_videos,
                      .video_grid_thw = images.video_grid_thw,
                      .second_per_grid_ts = images.second_per_grid_ts};
  if (seeing->needs_whole_images()) inputs.token_type_ids = input_ids.eq(seeing->image_token_id()).to(at::kLong);
  return inputs;
}

bool has_text_part(const ModelOptions& options) {
  const auto directory = resolve(options.model, {.revision = options.revision, .files = {"config.json"}});
  if (!std::filesystem::exists(directory / "config.json")) return false;
  const auto config = AutoConfig::from_pretrained(directory.string());
  const std::vector<TaskType> tasks = Registry::instance().tasks(std::string(config->model_type()));
  const auto has = [&](TaskType task) { return std::find(tasks.begin(), tasks.end(), task) != tasks.end(); };
  return has(TaskType::ImageTextToText) && !has(TaskType::CausalLM);
}

}  // namespace easydel::cli

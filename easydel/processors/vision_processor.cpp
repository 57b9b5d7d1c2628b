#include "easydel/processors/vision_processor.h"

#include <ATen/ATen.h>

#include "easydel/core/error.h"

namespace easydel {
namespace fs = std::filesystem;
namespace {

// Frames in a second.
constexpr double kMinRate = 1e-3, kMaxRate = 1e4;

// Qwen's files before transformers 5: the image processor alone, which names the class of both.
bool has_old_processor(const fs::path& directory) {
  const fs::path file = directory / "preprocessor_config.json";
  if (!fs::exists(file)) return false;
  const Json json = Json::parse_file(file.string());
  const Json* type = json.find("processor_class");
  return type && type->is_string() && type->as_string().starts_with("Qwen");
}

}  // namespace

VisionProcessor::VisionProcessor(ImageProcessor images, std::optional<VideoProcessor> videos,
                                 std::shared_ptr<const ImagePrompts> prompts)
    : images_(std::move(images)), videos_(std::move(videos)), prompts_(std::move(prompts)) {
  prompts_->adjust(images_);
}

bool VisionProcessor::is_in(const fs::path& directory) {
  return fs::exists(directory / "processor_config.json") || has_old_processor(directory);
}

VisionProcessor VisionProcessor::from_directory(const fs::path& directory) {
  const fs::path file = directory / "processor_config.json", tokenizer = directory / "tokenizer_config.json";
  require<ConfigError>(is_in(directory), "[VisionProcessor] ", directory.string(),
                       " must have a processor_config.json, which says what images become in a text; got none.");
  const fs::path read = fs::exists(file) ? file : directory / "preprocessor_config.json";
  return {AutoImageProcessor::from_directory(directory), VideoProcessor::from_directory(directory),
          make_image_prompts(Json::parse_file(read.string()),
                             fs::exists(tokenizer) ? Json::parse_file(tokenizer.string()) : Json::object(),
                             "[VisionProcessor] " + read.string() + ": ")};
}

VisionProcessor VisionProcessor::from_pretrained(const std::string& name_or_path, const HubOptions& hub) {
  return from_directory(resolve(name_or_path, hub));
}

void VisionProcessor::set_pan_and_scan(const PanAndScan& options) {
  require<ConfigError>(images_.class_name() == "Gemma3ImageProcessor",
                       "[VisionProcessor] pan and scan is supported only by Gemma3ImageProcessor; got ",
                       images_.class_name(), ".");
  images_.set_pan_and_scan(options);
}

ImageInputs VisionProcessor::operator()(const std::vector<at::Tensor>& images) const {
  const ProcessedImages processed = images_.process(images);
  ImagePrompt prompt = (*prompts_)(processed);
  ImageInputs inputs{processed.pixel_values, std::move(prompt.tokens), std::move(prompt.texts)};
  if (images_.steps().patch_size.height) {
    std::vector<int64_t> sizes;
    for (const HeightWidth& size : processed.sizes) sizes.insert(sizes.end(), {size.height, size.width});
    inputs.image_sizes = at::tensor(sizes, at::kLong).view({-1, 2});
  }
  inputs.pixel_attention_mask = processed.pixel_attention_mask;
  inputs.image_grid_thw = processed.image_grid_thw;
  return inputs;
}

ImageInputs VisionProcessor::load(const std::vector<std::string>& files) const {
  std::vector<at::Tensor> images;
  for (const std::string& file : files) images.push_back(images_.load(file));
  return (*this)(images);
}

void VisionProcessor::add_videos(ImageInputs& inputs, const std::vector<std::string>& paths,
                                 std::optional<double> fps) const {
  if (paths.empty()) return;
  require<NotSupportedError>(!prompts_->video_placeholder().empty(),
                             "[VisionProcessor] this model's processor supports only images. Videos: qwen2_vl, "
                             "qwen2_5_vl, qwen3_vl, smolvlm.");
  require<NotSupportedError>(videos_.has_value(),
                             "[VisionProcessor] the files have no video processor. Videos need a "
                             "video_preprocessor_config.json of Qwen2VLVideoProcessor, Qwen3VLVideoProcessor or "
                             "SmolVLMVideoProcessor.");
  const bool needs_rate = videos_->chooses_by_time() || prompts_->tells_times() || prompts_->counts_seconds();
  std::vector<at::Tensor> pixels, grids;
  std::vector<double> seconds;
  for (const std::string& path : paths) {
    VideoFrames video = load_video(path, videos_->decode_options());
    require<ConfigError>(!fps || !video.fps, "[VisionProcessor] fps applies only to folders of frames; ", path,
                         " has its own frame durations.");
    require<ConfigError>(!fps || needs_rate,
                         "[VisionProcessor] fps has no effect: this model's processor does not sample frames by time. "
                         "Remove frames from the folder instead.");
    require<ConfigError>(!fps || (*fps >= kMinRate && *fps <= kMaxRate), "[VisionProcessor] fps must be from ",
                         kMinRate, " to ", kMaxRate, "; got ", fps.value_or(0), ".");
    if (!video.fps) video.fps = fps;
    require<ConfigError>(video.fps || !needs_rate, "[VisionProcessor] ", path,
                         " has no frame rate, which this model's processor needs. Set fps (--fps).");
    const ProcessedVideo processed = (*videos_)(video);
    inputs.video_texts.push_back(prompts_->of_video(processed));
    pixels.push_back(processed.pixel_values);
    if (processed.grid_thw.defined()) grids.push_back(processed.grid_thw);
    if (prompts_->counts_seconds()) seconds.push_back(processed.seconds_per_step());
  }
  for (const at::Tensor& each : pixels)
    require<ShapeError>(each.sizes().slice(1) == pixels[0].sizes().slice(1),
                        "[VisionProcessor] videos must come out in one size; got ", pixels[0].sizes().slice(1), " and ",
                        each.sizes().slice(1), ". Set do_resize to resize them.");
  if (!grids.empty()) {
    inputs.pixel_values_videos = at::cat(pixels);
    inputs.video_grid_thw = at::stack(grids);
    if (!seconds.empty()) inputs.second_per_grid_ts = at::tensor(seconds, at::kDouble).to(at::kFloat);
    return;
  }
  require<NotSupportedError>(!inputs.pixel_values.defined(),
                             "[VisionProcessor] this model accepts images or videos, not both at once.");
  inputs.pixel_values = at::cat(pixels);
  inputs.pixel_attention_mask =
      at::ones({inputs.pixel_values.size(0), inputs.pixel_values.size(2), inputs.pixel_values.size(3)}, at::kLong);
}

namespace {

// Each placeholder becomes the next text. `what` they are of.
std::string replaced(const std::string& text, const std::string& placeholder, const std::vector<std::string>& texts,
                     const char* what) {
  std::string result;
  std::size_t places = 0, at = 0;
  for (std::size_t next; (next = text.find(placeholder, at)) != std::string::npos; at = next + placeholder.size()) {
    result += text.substr(at, next - at);
    if (places < texts.size()) result += texts[places];
    ++places;
  }
  require<ConfigError>(places == texts.size(), "[VisionProcessor] the text must have a placeholder ", placeholder,
                       " for each ", what, "; got ", places, " for ", texts.size(), ".");
  return result + text.substr(at);
}

}  // namespace

std::string VisionProcessor::expand(const std::string& text, const ImageInputs& images) const {
  // What a video becomes may have placeholders of images in it.
  const std::string shown = replaced(text, prompts_->placeholder(), images.texts, "image");
  const std::string& video = prompts_->video_placeholder();
  return video.empty() ? shown : replaced(shown, video, images.video_texts, "video");
}

}  // namespace easydel

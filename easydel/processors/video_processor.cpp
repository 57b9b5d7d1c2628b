#include "easydel/processors/video_processor.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "easydel/core/error.h"
#include "easydel/processors/image_tiles.h"

namespace easydel {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kQwen2 = "Qwen2VLVideoProcessor", kQwen3 = "Qwen3VLVideoProcessor",
                           kSmolVLM = "SmolVLMVideoProcessor";

// What the class has where the file says nothing. The rest is that of its image processor.
Json with_defaults(const std::string& name, const Json& given) {
  Json json =
      name == kQwen2
          ? Json::object({{"size", Json::object({{"shortest_edge", 128 * 28 * 28}, {"longest_edge", 28 * 28 * 768}})}})
      : name == kQwen3
          ? Json::object({{"size", Json::object({{"shortest_edge", 128 * 32 * 32}, {"longest_edge", 32 * 32 * 768}})},
                          {"image_mean", Json::array({0.5, 0.5, 0.5})},
                          {"image_std", Json::array({0.5, 0.5, 0.5})},
                          {"patch_size", 16}})
          : Json::object({{"do_image_splitting", false}});
  const Json* sampling = given.find("video_sampling");
  if (const Json* size = sampling ? sampling->find("video_size") : nullptr; size && name == kSmolVLM)
    json["size"] = Json(*size);
  for (const auto& [key, value] : given.as_object()) {
    if (!value.is_null() && key != "do_image_splitting") json[key] = value;
  }
  return json;
}

std::string image_class(const std::string& name, const std::string& where) {
  if (name == kSmolVLM) return "SmolVLMImageProcessor";
  if (name == kQwen2 || name == kQwen3) return "Qwen2VLImageProcessor";
  fail<NotSupportedError>(where, "video_processor_type must be one of ", kQwen2, ", ", kQwen3, ", ", kSmolVLM,
                          "; got \"", name, "\".");
}

// As numpy's linspace.
std::vector<double> linspace(double first, double last, int64_t count) {
  std::vector<double> values;
  const double step = count > 1 ? (last - first) / static_cast<double>(count - 1) : 0;
  for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<double>(i) * step + first);
  if (count > 1) values.back() = last;
  return values;
}

double rounded(double value) { return std::nearbyint(value); }  // half to even, as Python rounds

HeightWidth fitting_video(HeightWidth given, int64_t frames, int64_t temporal, int64_t factor, int64_t least,
                          int64_t most) {
  require<ShapeError>(frames >= temporal, "[VideoProcessor] a video must have ", temporal, " frames; got ", frames,
                      ".");
  auto height = static_cast<double>(given.height), width = static_cast<double>(given.width);
  const auto unit = static_cast<double>(factor), count = static_cast<double>(frames);
  if (given.height < factor || given.width < factor) {
    const double scale = std::max(unit / height, unit / width);
    height = std::trunc(height * scale);
    width = std::trunc(width * scale);
  }
  require<ShapeError>(std::max(height, width) / std::min(height, width) <= 200,
                      "[VideoProcessor] the aspect ratio may be at most 200; got ", given.height, " x ", given.width,
                      ".");
  const auto in_units = [&](double edges) { return static_cast<int64_t>(edges) * factor; };
  HeightWidth size{in_units(rounded(height / unit)), in_units(rounded(width / unit))};
  const int64_t all =
      static_cast<int64_t>(rounded(count / static_cast<double>(temporal))) * temporal * size.height * size.width;
  if (all > most) {
    const double beta = std::sqrt(count * height * width / static_cast<double>(most));
    size = {std::max(factor, in_units(std::floor(height / beta / unit))),
            std::max(factor, in_units(std::floor(width / beta / unit)))};
  } else if (all < least) {
    const double beta = std::sqrt(static_cast<double>(least) / (count * height * width));
    size = {in_units(std::ceil(height * beta / unit)), in_units(std::ceil(width * beta / unit))};
  }
  return size;
}

class FrameReader {
 public:
  FrameReader(const Json& json, const std::string& where) : json_(json), where_(where) {}
  const Json* find(const char* key) const {
    const Json* value = json_.find(key);
    return value && !value->is_null() ? value : nullptr;
  }
  void operator()(const char* key, bool& value) const {
    const Json* given = find(key);
    if (!given) return;
    require<ConfigError>(given->is_bool(), where_, key, " must be true or false; got ", given->dump(), ".");
    value = given->as_bool();
  }
  template <class T>
  void number(const char* key, T& value) const {
    const Json* given = find(key);
    if (!given) return;
    constexpr bool kCounts = !std::is_same_v<T, std::optional<double>>;
    require<ConfigError>(
        (kCounts ? given->is_int() : given->is_number()) && given->as_double() > 0 && given->as_double() < 1e9, where_,
        key, kCounts ? " must be a positive whole number; got " : " must be positive; got ", given->dump(), ".");
    if constexpr (kCounts) {
      value = given->as_int();
    } else {
      value = given->as_double();
    }
  }

 private:
  const Json& json_;
  const std::string& where_;
};

void read_frames(FrameSteps& frames, const std::string& name, const Json& json, const std::string& where) {
  frames.max_video_tokens = name == kQwen2 ? 128000 : 768;
  if (name == kQwen3) {
    frames.do_sample_frames = true;
    frames.fps = 2;
  }
  const FrameReader read(json, where);
  read("do_sample_frames", frames.do_sample_frames);
  if (json.contains("fps") && json.at("fps").is_null()) frames.fps.reset();
  read.number("fps", frames.fps);
  read.number("num_frames", frames.num_frames);
  read.number("min_frames", frames.min_frames);
  read.number("max_frames", frames.max_frames);
  read("cap_pixels_per_frame", frames.cap_pixels_per_frame);
  read.number("max_video_tokens", frames.max_video_tokens);
  if (const Json* sampling = read.find("video_sampling"); sampling && name == kSmolVLM) {
    const FrameReader inner(*sampling, where);
    inner.number("fps", frames.fps);
    inner.number("max_frames", frames.num_frames);
  }
  if (!frames.do_sample_frames) return;
  const bool has_both = frames.fps && frames.num_frames;
  require<ConfigError>(
      name == kSmolVLM ? has_both : !has_both && (frames.fps || frames.num_frames), where,
      name == kSmolVLM ? "fps and num_frames are both needed" : "fps or num_frames is needed, not both,",
      " where do_sample_frames is true.");
}

std::optional<Json> find_json(const fs::path& directory) {
  const fs::path whole = directory / "processor_config.json";
  if (fs::exists(whole)) {
    const Json json = Json::parse_file(whole.string());
    if (const Json* inner = json.find("video_processor"); inner && inner->is_object()) return *inner;
  }
  for (const char* name : {"video_preprocessor_config.json", "preprocessor_config.json"}) {
    if (fs::exists(directory / name)) return Json::parse_file((directory / name).string());
  }
  return std::nullopt;
}

}  // namespace

double ProcessedVideo::seconds_per_step() const {
  const double sampled = static_cast<double>(indices.size()) / static_cast<double>(frames) * *fps;
  return static_cast<double>(temporal_patch_size) / sampled;
}

VideoProcessor::VideoProcessor(const std::string& name, const Json& json, const std::string& where)
    : kind_(name == kSmolVLM ? Kind::SmolVLM
            : name == kQwen3 ? Kind::Qwen3
                             : Kind::Qwen2),
      images_(image_class(name, where), with_defaults(name, json), where) {
  read_frames(frames_, name, json, where);
}

std::optional<VideoProcessor> VideoProcessor::from_directory(const fs::path& directory) {
  const std::optional<Json> json = find_json(directory);
  if (!json || !json->is_object()) return std::nullopt;
  std::string name;
  for (const char* key : {"video_processor_type", "image_processor_type"}) {
    if (const Json* type = json->find(key); name.empty() && type && type->is_string()) name = type->as_string();
  }
  if (name.ends_with("Fast")) name.resize(name.size() - 4);
  if (const std::size_t at = name.find("ImageProcessor"); at != std::string::npos) name.replace(at, 5, "Video");
  if (name != kQwen2 && name != kQwen3 && name != kSmolVLM) return std::nullopt;
  return VideoProcessor(name, *json, concat("[VideoProcessor] ", directory.string(), ": "));
}

std::vector<int64_t> VideoProcessor::sample(int64_t count, std::optional<double> fps) const {
  std::vector<int64_t> indices;
  const auto all = static_cast<double>(count);
  if (!frames_.do_sample_frames) {
    for (int64_t i = 0; i < count; ++i) indices.push_back(i);
    return indices;
  }
  require<ConfigError>(fps.has_value() || !chooses_by_time(),
                       "[VideoProcessor] frames are sampled by time, which needs the frame rate; got none.");
  if (kind_ == Kind::SmolVLM) {
    const double seconds = all / *fps;
    const int64_t wanted =
        std::max<int64_t>(1, std::min(static_cast<int64_t>(rounded(*frames_.fps * seconds)), *frames_.num_frames));
    int64_t first = 0, last = count - 1;
    if (seconds - 2 > static_cast<double>(*frames_.num_frames) * *frames_.fps) {  // without a second at either end
      first = std::max<int64_t>(0, static_cast<int64_t>(*fps));
      last = std::min(static_cast<int64_t>(all - *fps), count - 1);
    }
    if (first >= last) {
      first = 0;
      last = count - 1;
    }
    for (const double at : linspace(static_cast<double>(first), static_cast<double>(last), wanted))
      indices.push_back(static_cast<int64_t>(std::floor(at)));
    indices.erase(std::unique(indices.begin(), indices.end()), indices.end());
    return indices;
  }
  if (kind_ == Kind::Qwen3) {
    int64_t wanted = frames_.num_frames.value_or(0);
    if (!frames_.num_frames) {
      wanted = static_cast<int64_t>(all / *fps * *frames_.fps);
      wanted = std::min({std::max(wanted, frames_.min_frames), frames_.max_frames, count});
    }
    for (const double at : linspace(0, all - 1, wanted)) indices.push_back(static_cast<int64_t>(rounded(at)));
    return indices;
  }
  const auto together = static_cast<double>(images_.steps().temporal_patch_size);
  double wanted = 0;
  if (frames_.num_frames) {
    wanted = rounded(static_cast<double>(*frames_.num_frames) / together) * together;
  } else {
    const double most = std::floor(std::min(static_cast<double>(frames_.max_frames), all) / together) * together;
    wanted = std::min({std::max(all / *fps * *frames_.fps, static_cast<double>(frames_.min_frames)), most, all});
    wanted = std::floor(wanted / together) * together;
  }
  require<ConfigError>(wanted >= 1 && wanted <= all, "[VideoProcessor] a video must have the ", wanted,
                       " frames that num_frames or fps ask for, and at least ", together, "; got ", count, ".");
  const at::Tensor places = at::arange(0, all, all / wanted, at::kFloat).to(at::kInt).to(at::kLong);
  return {places.const_data_ptr<int64_t>(), places.const_data_ptr<int64_t>() + places.numel()};
}

HeightWidth VideoProcessor::size_of(HeightWidth given, int64_t frames) const {
  const ImageSteps& s = images_.steps();
  const int64_t factor = s.patch_side * s.merge_size, least = *s.size.shortest_edge;
  int64_t most = *s.size.longest_edge;
  const auto floor_of_cap = static_cast<int64_t>(static_cast<double>(least) * 1.05);
  if (kind_ == Kind::Qwen3) {
    if (frames_.cap_pixels_per_frame)
      most = frames * std::max(std::min(frames_.max_video_tokens * factor * factor, most / frames), floor_of_cap);
    return fitting_video(given, frames, s.temporal_patch_size, factor, least, most);
  }
  if (frames_.cap_pixels_per_frame) {
    const auto all = static_cast<int64_t>(static_cast<double>(frames_.max_video_tokens * factor * factor) * 0.9);
    most = std::max(std::min(most, all * s.temporal_patch_size / frames), floor_of_cap);
  }
  return fitting_size(given, factor, least, most);
}

at::Tensor VideoProcessor::resized(const at::Tensor& frame, int64_t frames) const {
  const ImageSteps& s = images_.steps();
  if (!s.do_resize) return frame;
  const HeightWidth given{frame.size(1), frame.size(2)};
  if (kind_ != Kind::SmolVLM) return resize_image(frame, size_of(given, frames), s.resample);
  const int64_t side = *s.max_image_size.longest_edge;
  const HeightWidth first = s.size.longest_edge
                                ? size_by_longest_edge(given, std::min<int64_t>(4096, *s.size.longest_edge))
                                : HeightWidth{*s.size.height, *s.size.width};
  return resize_image(resize_image(frame, first, s.resample), {side, side}, s.resample);
}

ProcessedVideo VideoProcessor::operator()(const VideoFrames& video) const {
  ProcessedVideo result;
  const auto count = static_cast<int64_t>(video.frames.size());
  require<ShapeError>(count > 0, "[VideoProcessor] a video must have frames; got none.");
  result.indices = sample(count, video.fps);
  result.fps = video.fps;
  result.frames = count;
  if (video.fps) result.seconds = static_cast<double>(count) / *video.fps;
  std::vector<at::Tensor> frames;
  const auto seen = static_cast<int64_t>(result.indices.size());
  for (const int64_t index : result.indices)
    frames.push_back(resized(video.frames[static_cast<std::size_t>(index)], seen));
  const at::Tensor pixels = images_.rescale_and_normalize(at::stack(frames));
  if (!images_.makes_patches()) {
    result.pixel_values = pixels;
    return result;
  }
  result.merge_size = images_.steps().merge_size;
  result.temporal_patch_size = images_.steps().temporal_patch_size;
  std::tie(result.pixel_values, result.grid_thw) = images_.to_patches(pixels);
  return result;
}

}  // namespace easydel

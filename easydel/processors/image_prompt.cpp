#include "easydel/processors/image_prompt.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdio>

#include "easydel/core/error.h"

namespace easydel {
namespace {

std::string repeated(const std::string& text, int64_t times) {
  std::string result;
  for (int64_t i = 0; i < times; ++i) result += text;
  return result;
}

// Absent and null keys keep what the class has.
class PromptReader {
 public:
  PromptReader(const Json& json, const std::string& where) : json_(json), where_(where) {}

  const Json* find(const char* key) const {
    const Json* value = json_.find(key);
    return value && !value->is_null() ? value : nullptr;
  }
  void operator()(const char* key, int64_t& value, int64_t least) const {
    const Json* given = find(key);
    if (!given) return;
    require<ConfigError>(given->is_int() && given->as_int() >= least, where_, key, " must be a number from ", least,
                         "; got ", given->dump(), ".");
    value = given->as_int();
  }
  void operator()(const char* key, std::string& value) const {
    const Json* given = find(key);
    if (!given) return;
    require<ConfigError>(given->is_string() && !given->as_string().empty(), where_, key, " must be a string; got ",
                         given->dump(), ".");
    value = given->as_string();
  }
  const std::string& where() const { return where_; }

 private:
  const Json& json_;
  const std::string& where_;
};

// "twenty-one", "one hundred and five", "two thousand, three hundred": as num2words writes numbers.
std::string in_words(int64_t number) {
  static constexpr const char* kSmall[] = {
      "zero", "one",    "two",    "three",    "four",     "five",    "six",     "seven",     "eight",    "nine",
      "ten",  "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"};
  static constexpr const char* kTens[] = {"",      "",      "twenty",  "thirty", "forty",
                                          "fifty", "sixty", "seventy", "eighty", "ninety"};
  if (number < 20) return kSmall[number];
  if (number < 100) return concat(kTens[number / 10], number % 10 ? concat("-", kSmall[number % 10]) : std::string());
  const int64_t unit = number < 1000 ? 100 : 1000, rest = number % unit;
  const std::string whole = in_words(number / unit) + (unit == 100 ? " hundred" : " thousand");
  if (rest == 0) return whole;
  return whole + (rest < 100 ? " and " : ", ") + in_words(rest);
}

std::string two_digits(int64_t number) { return concat(number < 10 ? "0" : "", number); }

double rate_of(const ProcessedVideo& video) {
  require<ConfigError>(video.fps.has_value(),
                       "[VisionProcessor] the prompt has timestamps of frames, which need the frame rate; got none.");
  return *video.fps;
}

class LlavaPrompts : public ImagePrompts {
 public:
  explicit LlavaPrompts(const PromptReader& read) {
    const Json* patch = read.find("patch_size");
    require<ConfigError>(patch && patch->is_int() && patch->as_int() > 0, read.where(),
                         "patch_size must be a positive number; got ", patch ? patch->dump() : "none", ".");
    patch_size_ = patch->as_int();
    read("num_additional_image_tokens", additional_tokens_, 0);
    read("image_token", image_token_);
    if (const Json* strategy = read.find("vision_feature_select_strategy")) {
      require<ConfigError>(*strategy == Json("default") || *strategy == Json("full"), read.where(),
                           "vision_feature_select_strategy must be default or full; got ", strategy->dump(), ".");
      leaves_class_token_out_ = *strategy == Json("default");
    }
  }

  const std::string& placeholder() const override { return image_token_; }

  ImagePrompt operator()(const ProcessedImages& images) const override {
    const int64_t height = images.pixel_values.size(2), width = images.pixel_values.size(3);
    const int64_t features =
        (height / patch_size_) * (width / patch_size_) + additional_tokens_ - (leaves_class_token_out_ ? 1 : 0);
    require<ShapeError>(features > 0, "[VisionProcessor] images of ", height, " x ", width, " must have a patch of ",
                        patch_size_, "; got ", features, ".");
    const std::size_t count = images.pieces.size();
    return {std::vector<int64_t>(count, features), std::vector<std::string>(count, repeated(image_token_, features))};
  }

 private:
  std::string image_token_ = "<image>";
  int64_t patch_size_ = 0, additional_tokens_ = 0;
  bool leaves_class_token_out_ = false;
};

class Gemma3Prompts : public ImagePrompts {
 public:
  Gemma3Prompts(const PromptReader& read, const PromptReader& tokenizer) {
    read("image_seq_length", features_, 1);
    std::string end = "<end_of_image>";
    tokenizer("boi_token", begin_);
    tokenizer("eoi_token", end);
    tokenizer("image_token", feature_);
    text_ = "\n\n" + begin_ + repeated(feature_, features_) + end + "\n\n";
  }

  const std::string& placeholder() const override { return begin_; }
  const std::string& feature_token() const override { return feature_; }

  // As in transformers, whose processor shows images once unless a call says otherwise.
  void adjust(ImageProcessor& images) const override { images.set_pan_and_scan(std::nullopt); }

  ImagePrompt operator()(const ProcessedImages& images) const override {
    ImagePrompt prompt;
    for (const int64_t pieces : images.pieces) {
      prompt.tokens.insert(prompt.tokens.end(), static_cast<std::size_t>(pieces), features_);
      std::string text = text_;
      if (pieces > 1) {
        text = "Here is the original image " + text_ + " and here are some crops to help you see better " + text_;
        for (int64_t i = 2; i < pieces; ++i) text += " " + text_;
      }
      prompt.texts.push_back(std::move(text));
    }
    return prompt;
  }

 private:
  int64_t features_ = 256;
  std::string begin_ = "<start_of_image>", feature_ = "<image_soft_token>", text_;
};

class PixtralPrompts : public ImagePrompts {
 public:
  explicit PixtralPrompts(const PromptReader& read) {
    read("patch_size", patch_size_, 1);
    int64_t merged = 1;
    read("spatial_merge_size", merged, 1);
    patch_size_ *= merged;
    read("image_token", image_token_);
    read("image_break_token", break_token_);
    read("image_end_token", end_token_);
  }

  const std::string& placeholder() const override { return image_token_; }

  void adjust(ImageProcessor& images) const override { images.set_patch_size(patch_size_); }

  ImagePrompt operator()(const ProcessedImages& images) const override {
    ImagePrompt prompt;
    for (const HeightWidth& size : images.sizes) {
      const int64_t rows = size.height / patch_size_, columns = size.width / patch_size_;
      require<ShapeError>(rows > 0 && columns > 0, "[VisionProcessor] images must have a patch of ", patch_size_, " x ",
                          patch_size_, "; got ", size.height, " x ", size.width, ".");
      const std::string row = repeated(image_token_, columns);
      prompt.tokens.push_back(rows * columns);
      prompt.texts.push_back(repeated(row + break_token_, rows - 1) + row + end_token_);
    }
    return prompt;
  }

 private:
  int64_t patch_size_ = 16;  // of the squares that become a token
  std::string image_token_ = "[IMG]", break_token_ = "[IMG_BREAK]", end_token_ = "[IMG_END]";
};

class SmolVLMPrompts : public ImagePrompts {
 public:
  SmolVLMPrompts(const PromptReader& read, const PromptReader& tokenizer) {
    read("image_seq_len", features_, 1);
    tokenizer("image_token", image_token_);
    tokenizer("video_token", video_token_);
    tokenizer("fake_image_token", around_);
    tokenizer("global_image_token", whole_);
  }

  const std::string& placeholder() const override { return image_token_; }

  ImagePrompt operator()(const ProcessedImages& images) const override {
    ImagePrompt prompt;
    prompt.tokens.assign(images.sizes.size(), features_);
    const std::string features = repeated(image_token_, features_);
    const std::string alone = around_ + whole_ + features + around_;
    for (const HeightWidth& grid : images.grids) {
      std::string text;
      for (int64_t row = 1; row <= grid.height; ++row) {
        for (int64_t column = 1; column <= grid.width; ++column)
          text += concat(around_, "<row_", row, "_col_", column, ">", features);
        text += "\n";
      }
      prompt.texts.push_back(text.empty() ? alone : text + "\n" + alone);
    }
    return prompt;
  }

  const std::string& video_placeholder() const override { return video_token_; }
  bool tells_times() const override { return true; }
  std::string of_video(const ProcessedVideo& video) const override {
    const double rate = rate_of(video);
    const auto seconds = static_cast<int64_t>(*video.seconds);
    const int64_t days = seconds / 86400;
    std::string text =
        concat("You are provided the following series of ", in_words(static_cast<int64_t>(video.indices.size())),
               " frames from a ", days > 0 ? concat(days, days > 1 ? " days, " : " day, ") : "", seconds / 3600 % 24,
               ":", two_digits(seconds / 60 % 60), ":", two_digits(seconds % 60), " [H:MM:SS] video.\n");
    for (const int64_t index : video.indices) {
      const auto second = static_cast<int64_t>(static_cast<double>(index) / rate);
      text += concat("\nFrame from ", two_digits(second / 60), ":", two_digits(second % 60), ":", around_, whole_,
                     repeated(image_token_, features_), around_);
    }
    return text + "\n\n";
  }

 private:
  int64_t features_ = 169;
  std::string video_token_ = "<video>";
  std::string image_token_ = "<image>", around_ = "<fake_token_around_image>", whole_ = "<global-img>";
};

class QwenPrompts : public ImagePrompts {
 public:
  explicit QwenPrompts(const std::string& class_name)
      : tells_times_(class_name == "Qwen3VLProcessor"), counts_seconds_(class_name == "Qwen2_5_VLProcessor") {}

  const std::string& placeholder() const override { return image_token_; }

  ImagePrompt operator()(const ProcessedImages& images) const override {
    const at::Tensor& grid = images.image_grid_thw;
    require<ConfigError>(grid.defined(), "[VisionProcessor] Qwen's processors need a Qwen2VLImageProcessor.");
    ImagePrompt prompt;
    for (int64_t i = 0; i < grid.size(0); ++i) {
      prompt.tokens.push_back(grid[i].prod().item<int64_t>() / (images.merge_size * images.merge_size));
      prompt.texts.push_back(repeated(image_token_, prompt.tokens.back()));
    }
    return prompt;
  }

  const std::string& video_placeholder() const override { return video_token_; }
  bool tells_times() const override { return tells_times_; }
  bool counts_seconds() const override { return counts_seconds_; }
  std::string of_video(const ProcessedVideo& video) const override {
    const auto of_grid = [&](int64_t dim) { return video.grid_thw[dim].item<int64_t>(); };
    const int64_t steps = of_grid(0), tokens = of_grid(1) * of_grid(2) / (video.merge_size * video.merge_size);
    if (!tells_times_) return repeated(video_token_, steps * tokens);
    const double rate = rate_of(video);
    const auto second = [&](int64_t frame) {
      const auto last = static_cast<int64_t>(video.indices.size()) - 1;
      return static_cast<double>(video.indices[static_cast<std::size_t>(std::min(frame, last))]) / rate;
    };
    std::string text;
    for (int64_t step = 0; step < steps; ++step) {
      const int64_t first = step * video.temporal_patch_size;
      char time[64];
      std::snprintf(time, sizeof time, "<%.1f seconds>",
                    (second(first) + second(first + video.temporal_patch_size - 1)) / 2);
      text += time + begin_ + repeated(video_token_, tokens) + end_;
    }
    return text;
  }

 private:
  const bool tells_times_, counts_seconds_;
  std::string image_token_ = "<|image_pad|>", video_token_ = "<|video_pad|>";
  std::string begin_ = "<|vision_start|>", end_ = "<|vision_end|>";
};

}  // namespace

const std::string& ImagePrompts::video_placeholder() const {
  static const std::string kNone;
  return kNone;
}

std::string ImagePrompts::of_video(const ProcessedVideo&) const { return {}; }

std::unique_ptr<const ImagePrompts> make_image_prompts(const Json& processor, const Json& tokenizer,
                                                       const std::string& where) {
  const PromptReader read(processor, where), of_tokenizer(tokenizer, where);
  const Json* type = read.find("processor_class");
  const std::string name = type && type->is_string() ? type->as_string() : "LlavaProcessor";
  if (name == "LlavaProcessor") return std::make_unique<LlavaPrompts>(read);
  if (name == "Gemma3Processor") return std::make_unique<Gemma3Prompts>(read, of_tokenizer);
  if (name == "PixtralProcessor") return std::make_unique<PixtralPrompts>(read);
  if (name == "SmolVLMProcessor") return std::make_unique<SmolVLMPrompts>(read, of_tokenizer);
  if (name == "Qwen2VLProcessor" || name == "Qwen2_5_VLProcessor" || name == "Qwen3VLProcessor")
    return std::make_unique<QwenPrompts>(name);
  fail<NotSupportedError>(where,
                          "processor_class must be one of Gemma3Processor, LlavaProcessor, PixtralProcessor, "
                          "Qwen2VLProcessor, Qwen2_5_VLProcessor, Qwen3VLProcessor, SmolVLMProcessor; got \"",
                          name, "\".");
}

}  // namespace easydel

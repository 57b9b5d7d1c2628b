// Images through our processors and through transformers' torchvision backend.
#include <gmock/gmock.h>

#include <cstdlib>
#include <random>

#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/io/safetensors/safetensors.h"
#include "easydel/processors/image_processor.h"
#include "easydel/processors/vision_processor.h"
#include "tests/support/probe.h"
#include "tests/support/python.h"
#include "tests/support/temporary_directory.h"

namespace easydel {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(ImageProcessor, GivesThePixelsOfTransformersBitForBit) {
  const TemporaryDirectory directory;
  const char* seed = std::getenv("EASYDEL_SEED");
  const char* count = std::getenv("EASYDEL_IMAGES");
  const std::string drawn = seed ? seed : "27";
  SCOPED_TRACE("EASYDEL_SEED=" + drawn);
  run_python("images_peer.py", {"write", directory.path().string(), count ? count : "60", drawn});
  const std::vector<std::string> files = list_directory(directory / "images");
  const auto decoded = SafetensorsFile::open(directory / "decoded.safetensors");
  for (const std::string& name : files) {
    EXPECT_TRUE(at::equal(load_image(directory / "images" / name), decoded->tensor(name))) << name;
  }
  int64_t processors = 0;
  for (const std::string& folder : list_directory(directory.path())) {
    if (!fs::exists(directory / folder / "expected.safetensors")) continue;
    ++processors;
    const ImageProcessor processor = AutoImageProcessor::from_pretrained((directory / folder).string());
    const auto expected = SafetensorsFile::open(directory / folder / "expected.safetensors");
    for (const std::string& name : files) {
      const at::Tensor image = processor.load(directory / "images" / name);
      if (processor.makes_patches()) {
        if (!expected->contains(name)) {
          EXPECT_THAT([&] { processor.process({image}); },
                      ThrowsMessage<ShapeError>(HasSubstr("the aspect ratio may be at most 200; got ")));
          continue;
        }
        const ProcessedImages ours = processor.process({image});
        EXPECT_TRUE(at::equal(ours.pixel_values, expected->tensor(name))) << folder << " " << name;
        EXPECT_TRUE(at::equal(ours.image_grid_thw, expected->tensor(name + ".grid"))) << folder << " " << name;
        continue;
      }
      if (!expected->contains(name)) {
        EXPECT_THROW(processor({image}), ShapeError) << folder << " " << name;
        continue;
      }
      const at::Tensor theirs = expected->tensor(name);
      const at::Tensor ours = processor({image});
      EXPECT_TRUE(ours.scalar_type() == theirs.scalar_type() && at::equal(ours, theirs)) << folder << " " << name;
    }
  }
  EXPECT_EQ(processors, 19);

  // What an image is in a prompt.
  std::size_t several = 0;
  for (const char* name : {"gemma3", "mistral3", "smolvlm"}) {
    SCOPED_TRACE(name);
    VisionProcessor processor = VisionProcessor::from_directory(directory / "prompts" / name);
    if (std::string(name) == "gemma3")
      processor.set_pan_and_scan({.min_crop_size = 20, .max_num_crops = 3, .min_ratio_to_activate = 1.3});
    const Json texts = Json::parse_file((directory / "prompts" / name / "texts.json").string());
    for (const auto& [file, text] : texts.as_object()) {
      const ImageInputs inputs = processor.load({(directory / "images" / file).string()});
      EXPECT_EQ(processor.expand("a " + processor.image_token() + " b", inputs), "a " + text.as_string() + " b")
          << file;
      EXPECT_EQ(static_cast<int64_t>(inputs.tokens.size()), inputs.pixel_values.size(0));
      several += inputs.tokens.size() > 1 ? 1 : 0;
    }
  }
  EXPECT_GT(several, 10);
}

TEST(VideoProcessor, GivesTheFramesAndPixelsOfTransformersBitForBit) {
  const TemporaryDirectory directory;
  const char* seed = std::getenv("EASYDEL_SEED");
  const char* count = std::getenv("EASYDEL_VIDEOS");
  const std::string drawn = seed ? seed : "27";
  SCOPED_TRACE("EASYDEL_SEED=" + drawn);
  run_python("images_peer.py", {"videos", directory.path().string(), count ? count : "9", drawn});
  const fs::path root = directory / "videos";
  const auto expected = SafetensorsFile::open(root / "expected.safetensors");
  const Json cases = Json::parse_file((root / "cases.json").string());
  EXPECT_EQ(cases.size(), 9);
  for (const auto& [folder, videos] : cases.as_object()) {
    const auto processor = VideoProcessor::from_directory(root / "processors" / folder);
    const VisionProcessor whole = VisionProcessor::from_directory(root / "processors" / folder);
    ASSERT_TRUE(processor.has_value()) << folder;
    const std::string token = folder.starts_with("smol") ? "<video>" : "<|video_pad|>";
    for (const auto& [name, expect] : videos.as_object()) {
      SCOPED_TRACE(concat(folder, " ", name));  // qwen2-count: so many frames, whenever they are shown
      VideoFrames video = load_video(root / name);
      EXPECT_TRUE(at::equal(at::stack(video.frames), expected->tensor(name)));
      if (expect.is_null()) {
        EXPECT_THROW((*processor)(video), ConfigError);
        continue;
      }
      const double fps = expect.at("fps").as_double();
      EXPECT_EQ(video.fps.value_or(fps), fps);
      const bool is_folder = !video.fps;
      video.fps = fps;
      const ProcessedVideo ours = (*processor)(video);
      EXPECT_EQ(Json(ours.indices), expect.at("indices"));
      EXPECT_TRUE(at::equal(ours.pixel_values, expected->tensor(concat(folder, ".", name))));
      if (ours.grid_thw.defined()) {
        EXPECT_TRUE(at::equal(ours.grid_thw.unsqueeze(0), expected->tensor(concat(folder, ".", name, ".grid"))));
      }
      ImageInputs inputs;
      const bool asks = folder != "qwen2" && folder != "qwen2-count";
      whole.add_videos(inputs, {(root / name).string()}, asks && is_folder ? std::optional(fps) : std::nullopt);
      EXPECT_EQ(whole.expand("a " + token + " b", inputs), "a " + expect.at("text").as_string() + " b");
      const bool counts_seconds = folder.starts_with("qwen2.5");
      EXPECT_EQ(inputs.second_per_grid_ts.defined(), counts_seconds);
      if (counts_seconds) {
        EXPECT_TRUE(at::equal(inputs.second_per_grid_ts, expected->tensor(concat(folder, ".", name, ".seconds"))));
      }
    }
  }
  for (const std::string& name : list_directory(root / "animations")) {
    const VideoFrames video = load_video(root / "animations" / name, {.alpha = Alpha::Drop});
    EXPECT_TRUE(at::equal(at::stack(video.frames), expected->tensor("animations/" + name))) << name;
  }

  // Positions that count seconds need to know them.
  ImageInputs inputs;
  EXPECT_THAT(
      [&] {
        VisionProcessor::from_directory(root / "processors" / "qwen2.5")
            .add_videos(inputs, {(root / "0").string()}, std::nullopt);
      },
      ThrowsMessage<ConfigError>(HasSubstr("has no frame rate, which this model's processor needs. Set fps (--fps).")));
}

TEST(VideoProcessor, SaysWhatItDoesNotTake) {
  const TemporaryDirectory directory;
  const auto write = [&](const std::string& name, const std::string& bytes) {
    write_file_atomically(directory / name, bytes);
    return (directory / name).string();
  };
  const std::string film = write("film.mp4", std::string("\0\0\0\x20"
                                                         "ftypisom",
                                                         12));
  EXPECT_THAT([&] { load_video(film); },
              ThrowsMessage<NotSupportedError>(
                  concat("[load_video] ", film,
                         ": a video must be a folder of frames, or an animated GIF or WebP file; video codecs are not "
                         "supported. Extract its frames, as in: ffmpeg -i FILE -r 2 FOLDER/%05d.png")));
  fs::create_directory(directory / "frames");
  EXPECT_THAT([&] { load_video(directory / "frames"); },
              ThrowsMessage<FormatError>(HasSubstr("frames: a folder of frames must have images; got none.")));
  EXPECT_THROW(load_video("/nowhere/a.gif"), IoError);
  EXPECT_THAT([] { VideoProcessor("LlavaVideoProcessor", Json::object(), "[here] "); },
              ThrowsMessage<NotSupportedError>("[here] video_processor_type must be one of Qwen2VLVideoProcessor, "
                                               "Qwen3VLVideoProcessor, SmolVLMVideoProcessor; got "
                                               "\"LlavaVideoProcessor\"."));
  EXPECT_THAT(
      [] { VideoProcessor("Qwen3VLVideoProcessor", Json::parse(R"({"num_frames": 3})"), "[here] "); },
      ThrowsMessage<ConfigError>("[here] fps or num_frames is needed, not both, where do_sample_frames is true."));
  EXPECT_THAT([] { VideoProcessor("Qwen3VLVideoProcessor", Json::parse(R"({"max_frames": 2.5})"), "[here] "); },
              ThrowsMessage<ConfigError>("[here] max_frames must be a positive whole number; got 2.5."));
  const VideoProcessor qwen("Qwen3VLVideoProcessor", Json::object(), "[here] ");
  EXPECT_THAT([&] { qwen.sample(10, std::nullopt); }, ThrowsMessage<ConfigError>(HasSubstr("got none.")));
}

TEST(ImageProcessor, StacksImagesOfDifferentSizes) {
  const ImageProcessor processor("CLIPImageProcessor", Json::parse(R"({"size": 8, "crop_size": 6})"), "[test] ");
  const at::Tensor pixels = processor({at::full({3, 20, 10}, 7, at::kByte), at::full({3, 9, 31}, 200, at::kByte)});
  EXPECT_EQ(pixels.sizes(), (std::vector<int64_t>{2, 3, 6, 6}));
  const ImageProcessor uncropped("CLIPImageProcessor", Json::parse(R"({"size": 8, "do_center_crop": false})"), "");
  EXPECT_THAT([&] { uncropped({at::zeros({3, 20, 10}, at::kByte), at::zeros({3, 9, 31}, at::kByte)}); },
              ThrowsMessage<ShapeError>("[ImageProcessor] the images of a batch must come out in one size; got "
                                        "[3, 16, 8] and [3, 8, 27]. Set do_center_crop or do_pad to make them equal."));
}

TEST(ImageProcessor, SaysWhatToDoAboutAnElongatedImage) {
  const ImageProcessor processor("PixtralImageProcessor",
                                 Json::parse(R"({"size": {"longest_edge": 24}, "patch_size": 4})"), "");
  EXPECT_THAT([&] { processor.process({at::zeros({3, 1, 5000}, at::kByte)}); },
              ThrowsMessage<ShapeError>("[ImageProcessor] an image of 1 x 5000 cannot be resized to 0 x 24: its sides "
                                        "differ too much. Crop it, or pad it to a less elongated one."));
}

TEST(ImageProcessor, CutsImagesOfDifferentSizesIntoPatches) {
  const ImageProcessor processor("Qwen2VLImageProcessor", Json::parse(R"({"patch_size": 4, "min_pixels": 64,
    "max_pixels": 640})"),
                                 "[test] ");
  const at::Tensor a = at::randint(0, 255, {3, 40, 9}, at::kByte), b = at::randint(0, 255, {3, 16, 24}, at::kByte);
  const ProcessedImages both = processor.process({a, b}), first = processor.process({a}),
                        second = processor.process({b});
  EXPECT_TRUE(at::equal(both.pixel_values, at::cat({first.pixel_values, second.pixel_values})));
  EXPECT_TRUE(at::equal(both.image_grid_thw, at::cat({first.image_grid_thw, second.image_grid_thw})));
  EXPECT_EQ(both.pixel_values.size(1), 3 * 2 * 4 * 4);
  EXPECT_TRUE(at::equal(second.image_grid_thw, at::tensor({1, 4, 6}, at::kLong).view({1, 3})));
  const ImageProcessor unsized("Qwen2VLImageProcessor", Json::parse(R"({"patch_size": 4, "do_resize": false})"), "");
  EXPECT_TRUE(at::equal(unsized.process({b}).pixel_values, second.pixel_values));
  EXPECT_THAT([&] { unsized.process({a}); },
              ThrowsMessage<ShapeError>("[ImageProcessor] images must have heights and widths in multiples of 8; got "
                                        "40 x 9. Set do_resize to resize them."));
}

TEST(ImageProcessor, RefusesWrongValuesByName) {
  const auto message = [](const char* class_name, const char* json) -> std::string {
    try {
      ImageProcessor(class_name, Json::parse(json), "[here] ");
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message("CLIPImageProcessor", R"({"do_resize": 1})"), "[here] do_resize must be true or false; got 1.");
  EXPECT_EQ(message("CLIPImageProcessor", R"({"resample": 4})"),
            "[here] resample must be 0 (nearest), 1 (lanczos), 2 (bilinear) or 3 (bicubic); got 4.");
  EXPECT_EQ(
      message("CLIPImageProcessor", R"({"size": {"depth": 3}})"),
      "[here] size may have height, width, shortest_edge, longest_edge, max_height and max_width; got \"depth\".");
  EXPECT_EQ(message("CLIPImageProcessor", R"({"image_mean": [1, 2]})"),
            "[here] image_mean must be a number or a list of 3; got [1, 2].");
  EXPECT_EQ(message("ViTImageProcessor", R"({"image_std": 0.0})"), "[here] image_std must not be 0.");
  EXPECT_EQ(message("Qwen2VLImageProcessor", R"({"size": {"height": 3, "width": 3}})"),
            "[here] size must have shortest_edge and longest_edge, the least and the most pixels.");
  EXPECT_EQ(message("Qwen2VLImageProcessor", R"({"max_pixels": 0})"),
            "[here] max_pixels must be a positive number; got 0.");
  EXPECT_THAT(message("DetrImageProcessor", "{}"), HasSubstr("got \"DetrImageProcessor\"."));
}

TEST(DecodeImage, RefusesWhatIsNotAnImage) {
  EXPECT_THAT(
      [] { decode_image("hello", {}, "a.png"); },
      ThrowsMessage<NotSupportedError>(
          "[decode_image] a.png: an image must be a JPEG, PNG, WebP, GIF or BMP file; got 5 bytes of another format."));
  EXPECT_THAT([] { load_image("/nowhere/a.png"); }, testing::Throws<IoError>());
}

// Every prefix of a file, and files with bytes changed: an error or an image, never a crash.
TEST(DecodeImage, SurvivesBrokenFiles) {
  const TemporaryDirectory directory;
  run_python("images_peer.py", {"write", directory.path().string(), "24", "3"});
  std::mt19937 random(5);
  int64_t refused = 0;
  for (const std::string& name : list_directory(directory / "images")) {
    const std::string bytes = read_file(directory / "images" / name);
    const auto try_it = [&](const std::string& broken) {
      try {
        decode_image(broken, {.max_pixels = 1'000'000});
        if (name.ends_with(".gif") || name.ends_with(".webp")) {
          write_file_atomically(directory / "broken", broken);
          load_video(directory / "broken", {.max_pixels = 1'000'000});
        }
      } catch (const Error& error) {
        ++refused;
        EXPECT_THAT(error.what(), testing::AnyOf(HasSubstr("[decode_image] "), HasSubstr("[load_video] ")));
      }
    };
    for (std::size_t cut = 0; cut < bytes.size(); cut += 1 + bytes.size() / 40) try_it(bytes.substr(0, cut));
    for (int i = 0; i < 40; ++i) {
      std::string broken = bytes;
      for (int k = 0; k < 3; ++k) broken[random() % broken.size()] = static_cast<char>(random());
      try_it(broken);
    }
  }
  EXPECT_GT(refused, 300);
}

PROBE(DecodeImageOptions, max_pixels) {
  const TemporaryDirectory directory;
  run_python("images_peer.py", {"write", directory.path().string(), "12", "4"});
  for (const std::string& name : list_directory(directory / "images")) {
    EXPECT_THAT([&] { load_image(directory / "images" / name, {.max_pixels = 0}); },
                ThrowsMessage<FormatError>(HasSubstr("an image may have 0 pixels; got ")))
        << name;
  }
}

// One pixel of red that is half transparent, as a BMP file.
std::string half_red() {
  std::string file = "BM";
  const auto add = [&](uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) file += static_cast<char>(value >> (8 * i));
  };
  for (const int value : {74, 0, 70, 56, 1, 1}) add(static_cast<uint64_t>(value), 4);
  add(1, 2);
  add(32, 2);
  add(3, 4);  // with masks
  for (int i = 0; i < 5; ++i) add(0, 4);
  for (const uint64_t mask : {0xff0000ull, 0xff00ull, 0xffull, 0xff000000ull}) add(mask, 4);
  add(0x80ff0000ull, 4);
  return file;
}

PROBE(DecodeImageOptions, alpha) {
  EXPECT_TRUE(at::equal(decode_image(half_red()).flatten(), at::tensor({255, 127, 127}, at::kByte)));
  EXPECT_TRUE(
      at::equal(decode_image(half_red(), {.alpha = Alpha::Drop}).flatten(), at::tensor({255, 0, 0}, at::kByte)));
}

}  // namespace
}  // namespace easydel

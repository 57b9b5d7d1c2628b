// Recordings through our decoder and feature extractor, and through libsndfile and transformers.
#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>

#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/io/safetensors/safetensors.h"
#include "easydel/processors/feature_extractor.h"
#include "tests/support/probe.h"
#include "tests/support/python.h"
#include "tests/support/temporary_directory.h"

namespace easydel::audio_tests {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::ThrowsMessage;

// A WAV file of 32-bit floats.
std::string wav(const std::vector<float>& samples, uint32_t channels = 1, uint32_t rate = 16000) {
  std::string bytes;
  const auto put = [&](auto value) { bytes.append(reinterpret_cast<const char*>(&value), sizeof value); };
  const auto size = static_cast<uint32_t>(samples.size() * 4);
  bytes += "RIFF";
  put(36 + size);
  bytes += "WAVEfmt ";
  put(uint32_t{16});
  put(uint16_t{3});
  put(static_cast<uint16_t>(channels));
  put(rate);
  put(rate * channels * 4);
  put(static_cast<uint16_t>(channels * 4));
  put(uint16_t{32});
  bytes += "data";
  put(size);
  for (const float sample : samples) put(sample);
  return bytes;
}

TEST(WhisperFeatureExtractor, GivesTheFeaturesOfTransformersBitForBit) {
  const TemporaryDirectory directory;
  const char* seed = std::getenv("EASYDEL_SEED");
  const char* count = std::getenv("EASYDEL_SOUNDS");
  const std::string drawn = seed ? seed : "27";
  SCOPED_TRACE("EASYDEL_SEED=" + drawn);
  run_python("audio_peer.py", {"write", directory.path().string(), count ? count : "60", drawn});
  const std::vector<std::string> files = list_directory(directory / "sounds");
  EXPECT_GE(files.size(), 50);
  const auto decoded = SafetensorsFile::open(directory / "decoded.safetensors");
  const auto mono = SafetensorsFile::open(directory / "mono.safetensors");
  int64_t resampled = 0, compared = 0, longer = 0;
  for (const std::string& name : files) {
    SCOPED_TRACE(name);
    const Sound sound = decode_audio(read_file(directory / "sounds" / name), {}, name);
    EXPECT_TRUE(at::equal(sound.samples, decoded->tensor(name)));
    const at::Tensor ours = load_audio(directory / "sounds" / name), theirs = mono->tensor(name);
    ASSERT_EQ(ours.sizes(), theirs.sizes());
    if (sound.sampling_rate == 16000) {
      EXPECT_TRUE(at::equal(ours, theirs));
    } else {
      ++resampled;
      EXPECT_LT((ours - theirs).abs().max().item<double>(), 1e-7 + 1e-7 * theirs.abs().max().item<double>());
    }
  }
  for (const char* folder : {"plain", "wide", "other"}) {
    const WhisperFeatureExtractor extractor = AutoFeatureExtractor::from_pretrained((directory / folder).string());
    const auto expected = SafetensorsFile::open(directory / folder / "expected.safetensors");
    for (const std::string& name : expected->names()) {
      SCOPED_TRACE(std::string(folder) + " " + name);
      const bool whole = name.starts_with("whole-");
      const at::Tensor wave = extractor.load(directory / "sounds" / (whole ? name.substr(6) : name));
      const at::Tensor ours = whole ? extractor.whole(wave) : extractor({wave});
      EXPECT_TRUE(at::equal(ours, expected->tensor(name)));
      ++compared;
      longer += whole;
    }
  }
  EXPECT_GT(resampled, 10);
  EXPECT_GT(compared, 80);
  EXPECT_GT(longer, 5);
}

TEST(WhisperFeatureExtractor, PadsToAWindowAndStacks) {
  const WhisperFeatureExtractor extractor;
  const at::Tensor features = extractor({at::ones({5}), at::zeros({600000})});
  EXPECT_EQ(features.sizes(), (std::vector<int64_t>{2, 80, 3000}));
  EXPECT_TRUE(at::equal(features[1], at::full({80, 3000}, -1.5)));  // silence: (log10(1e-10) + 4) / 4
  EXPECT_EQ(extractor.whole(at::zeros({500000})).sizes(), (std::vector<int64_t>{1, 80, 3125}));
  EXPECT_THAT([&] { extractor({at::zeros({0})}); },
              ThrowsMessage<ShapeError>(HasSubstr("a recording must be samples [n] of one channel; got [0].")));
}

TEST(WhisperFeatureExtractor, RefusesWrongValuesByName) {
  const auto message = [](const char* json) -> std::string {
    try {
      WhisperFeatureExtractor(Json::parse(json), "[here] ");
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message(R"({"n_fft": 0})"), "[here] n_fft must be an integer of at least 2; got 0.");
  EXPECT_EQ(message(R"({"feature_size": "80"})"), "[here] feature_size must be an integer of at least 1; got \"80\".");
  EXPECT_EQ(message(R"({"dither": 0.5})"),
            "[here] dither must be 0, because noise would make results differ between runs; got 0.5.");
  EXPECT_EQ(message(R"({"padding_side": "top"})"), "[here] padding_side must be left or right; got top.");
  EXPECT_EQ(message(R"({"chunk_length": 1, "sampling_rate": 100})"),
            "[here] chunk_length times sampling_rate must be more than half of n_fft; got 100 and 400.");
  const TemporaryDirectory directory;
  write_file_atomically(directory / "preprocessor_config.json",
                        R"({"feature_extractor_type": "Wav2Vec2FeatureExtractor"})");
  EXPECT_THAT([&] { AutoFeatureExtractor::from_directory(directory.path()); },
              ThrowsMessage<NotSupportedError>(HasSubstr("got \"Wav2Vec2FeatureExtractor\".")));
  EXPECT_THAT([] { AutoFeatureExtractor::from_directory("/nowhere"); },
              ThrowsMessage<ConfigError>("[AutoFeatureExtractor] /nowhere must have preprocessor_config.json, or "
                                         "feature_extractor in processor_config.json; got neither."));
}

TEST(Resample, KeepsATonesPitchAndDropsWhatIsTooHigh) {
  const auto tone = [](double hertz, int64_t rate) {
    return at::sin(at::arange(rate, at::kDouble) * (2 * M_PI * hertz / static_cast<double>(rate))).to(at::kFloat);
  };
  const auto middle = [](const at::Tensor& x) { return x.narrow(0, 1000, x.size(0) - 2000); };
  for (const int64_t rate : {8000, 22050, 44100, 44101, 48000}) {
    const at::Tensor ours = resample(tone(440, rate), rate, 16000);
    ASSERT_EQ(ours.size(0), 16000) << rate;
    EXPECT_LT((middle(ours) - middle(tone(440, 16000))).abs().max().item<double>(), 2e-3) << rate;
  }
  EXPECT_LT(middle(resample(tone(11000, 48000), 48000, 16000)).abs().max().item<double>(), 2e-2);
  EXPECT_TRUE(at::equal(resample(tone(440, 16000), 16000, 16000), tone(440, 16000)));
}

TEST(DecodeAudio, MixesEightChannelsAndSaysWhatIsNoSound) {
  std::vector<float> samples(16);
  for (std::size_t i = 0; i < samples.size(); ++i) samples[i] = static_cast<float>(i) / 16;
  const Sound sound = decode_audio(wav(samples, 8));
  EXPECT_EQ(sound.samples.sizes(), (std::vector<int64_t>{2, 8}));
  EXPECT_TRUE(at::equal(mix_to_mono(sound), at::tensor({3.5 / 16, 11.5 / 16}, at::kFloat)));
  const auto message = [](const std::string& bytes) -> std::string {
    try {
      decode_audio(bytes, {}, "a.wav");
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message(""), "[decode_audio] a.wav: a recording must have a sample; got an empty file.");
  EXPECT_EQ(message("hello, this is no sound"),
            "[decode_audio] a.wav: a recording must be a WAV, FLAC, Ogg or MP3 file; got 23 bytes of another format.");
  EXPECT_EQ(message(wav({})), "[decode_audio] a.wav: a recording must have a sample; got none in 44 bytes.");
  EXPECT_EQ(message(wav({0, std::numeric_limits<float>::quiet_NaN()})),
            "[decode_audio] a.wav: samples must be finite; got infinity or NaN.");
  EXPECT_THAT([] { load_audio("/nowhere/a.wav"); }, testing::Throws<IoError>());
}

// Prefixes of files, and files with bytes changed: an error in one line or samples, never a crash.
TEST(DecodeAudio, SurvivesBrokenFiles) {
  const TemporaryDirectory directory;
  run_python("audio_peer.py", {"write", directory.path().string(), "20", "3"});
  std::mt19937 draw(5);
  int refused = 0, read = 0;
  const auto decode = [&](const std::string& bytes) {
    try {
      read += decode_audio(bytes, {.max_samples = 10'000'000}).samples.size(0) > 0;
    } catch (const Error& error) {
      ++refused;
      EXPECT_THAT(error.what(), testing::AllOf(testing::StartsWith("[decode_audio] "), testing::EndsWith("."),
                                               testing::Not(HasSubstr("\n"))));
    }
  };
  for (const std::string& name : list_directory(directory / "sounds")) {
    SCOPED_TRACE(name);
    const std::string bytes = read_file(directory / "sounds" / name);
    for (std::size_t part = 1; part < 12; ++part) decode(bytes.substr(0, bytes.size() * part / 12));
    for (std::size_t length = 0; length < std::min<std::size_t>(bytes.size(), 64); length += 7)
      decode(bytes.substr(0, length));
    for (int i = 0; i < 20; ++i) {
      std::string changed = bytes;
      for (int j = 0; j < 4; ++j)
        changed[draw() % std::min<std::size_t>(changed.size(), 200)] = static_cast<char>(draw() % 256);
      decode(changed);
    }
  }
  EXPECT_GT(refused, 50);
  EXPECT_GT(read, 50);
}

PROBE(DecodeAudioOptions, max_samples) {
  const std::string bytes = wav(std::vector<float>(100), 2);
  EXPECT_EQ(decode_audio(bytes, {.max_samples = 100}).samples.numel(), 100);
  EXPECT_TRUE(testing_support::is_refused("a recording may have 99 samples",
                                          [&] { decode_audio(bytes, {.max_samples = 99}); }));
}

}  // namespace
}  // namespace easydel::audio_tests

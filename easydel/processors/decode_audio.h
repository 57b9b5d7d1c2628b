// From the bytes of a recording to its samples.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace easydel {

struct DecodeAudioOptions {
  int64_t max_samples = 500'000'000;  // of all channels together; more are refused while they are read
};

struct Sound {
  at::Tensor samples;         // [frames, channels] float32; whole numbers become parts of 1
  int64_t sampling_rate = 0;  // frames in a second
};

// WAV, FLAC, Ogg, MP3 and what else libsndfile knows by its first bytes. FormatError on broken content, on a recording
// without a sample and on numbers that are not finite; NotSupportedError on another format, and in a build without the
// library. `name` is named in errors.
Sound decode_audio(std::string_view bytes, const DecodeAudioOptions& options = {}, const std::string& name = "");

// One channel [frames]: the mean of all.
at::Tensor mix_to_mono(const Sound& sound);

// Samples [frames] at another rate, by the sum of windowed sincs that torchaudio's resample computes: a Hann window
// over six zero crossings to each side, and a low pass at 0.99 of the lower of the two rates.
at::Tensor resample(const at::Tensor& samples, int64_t from_rate, int64_t to_rate);

// A file as one channel [frames] at this rate. IoError when it cannot be read.
at::Tensor load_audio(const std::filesystem::path& path, int64_t sampling_rate = 16000,
                      const DecodeAudioOptions& options = {});

}  // namespace easydel

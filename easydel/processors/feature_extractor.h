// From recordings to input_features, bit for bit as transformers' WhisperFeatureExtractor.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <string>
#include <vector>

#include "easydel/core/json/json.h"
#include "easydel/io/hub/hub.h"
#include "easydel/processors/decode_audio.h"

namespace easydel {

// The filters [n_fft / 2 + 1, mels] of Slaney's scale up to 8 kHz, each of the same energy.
at::Tensor slaney_mel_filters(int64_t n_fft, int64_t mels, int64_t sampling_rate);

class WhisperFeatureExtractor {
 public:
  // The keys of preprocessor_config.json; ConfigError and NotSupportedError on wrong values begin with `where`.
  explicit WhisperFeatureExtractor(const Json& json = Json::object(), const std::string& where = "");

  int64_t feature_size() const { return feature_size_; }
  int64_t sampling_rate() const { return sampling_rate_; }
  int64_t samples() const { return chunk_length_ * sampling_rate_; }  // of one window of the model
  int64_t frames() const { return samples() / hop_length_; }

  at::Tensor load(const std::filesystem::path& path) const { return load_audio(path, sampling_rate_); }

  // Log-mel features [recordings, mels, frames] of samples [n] at sampling_rate(), each padded or cut to samples().
  at::Tensor operator()(const std::vector<at::Tensor>& recordings) const;
  // All of a longer one, [1, mels, n / hop_length]. One that is not longer is padded.
  at::Tensor whole(const at::Tensor& recording) const;
  // How many frames of whole(recording) are sound, and no padding behind it.
  int64_t sound_frames(const at::Tensor& recording) const;

 private:
  at::Tensor log_mel(const at::Tensor& waves) const;  // [B, n]
  at::Tensor padded(const at::Tensor& recording) const;

  int64_t feature_size_ = 80, sampling_rate_ = 16000, hop_length_ = 160, chunk_length_ = 30, n_fft_ = 400;
  double padding_value_ = 0;
  bool pads_left_ = false;
  at::Tensor filters_;
};

struct AutoFeatureExtractor {
  // From feature_extractor in processor_config.json, or preprocessor_config.json, of a directory or of a repository on
  // the hub. ConfigError when there is none, NotSupportedError when it is of another class.
  static WhisperFeatureExtractor from_pretrained(const std::string& name_or_path, const HubOptions& hub = {});
  static WhisperFeatureExtractor from_directory(const std::filesystem::path& directory);
};

}  // namespace easydel

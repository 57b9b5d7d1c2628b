#include "easydel/processors/feature_extractor.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "easydel/core/error.h"

namespace easydel {
namespace fs = std::filesystem;
namespace {

constexpr double kHighestHertz = 8000, kFirstLogHertz = 1000, kFirstLogMel = 15;

double hertz_to_mel(double hertz) {
  if (hertz < kFirstLogHertz) return 3.0 * hertz / 200.0;
  return kFirstLogMel + std::log(hertz / kFirstLogHertz) * (27.0 / std::log(6.4));
}

double mel_to_hertz(double mel) {
  if (mel < kFirstLogMel) return 200.0 * mel / 3.0;
  return kFirstLogHertz * std::exp(std::log(6.4) / 27.0 * (mel - kFirstLogMel));
}

std::vector<double> evenly_spaced(double first, double last, int64_t count) {
  const double step = (last - first) / static_cast<double>(count - 1);
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<double>(i) * step + first);
  values.back() = last;
  return values;
}

// An integer of at least `least`, where the key is given.
void read_count(const Json& json, const char* key, int64_t least, int64_t& value, const std::string& where) {
  const Json* given = json.find(key);
  if (!given || given->is_null()) return;
  require<ConfigError>(given->is_int() && given->as_int() >= least && given->as_int() <= (int64_t{1} << 24), where, key,
                       " must be an integer of at least ", least, "; got ", given->dump(), ".");
  value = given->as_int();
}

double read_number(const Json& json, const char* key, double otherwise, const std::string& where) {
  const Json* given = json.find(key);
  if (!given || given->is_null()) return otherwise;
  require<ConfigError>(given->is_number(), where, key, " must be a number; got ", given->dump(), ".");
  return given->as_double();
}

}  // namespace

at::Tensor slaney_mel_filters(int64_t n_fft, int64_t mels, int64_t sampling_rate) {
  const int64_t bins = n_fft / 2 + 1;
  std::vector<double> edges = evenly_spaced(hertz_to_mel(0), hertz_to_mel(kHighestHertz), mels + 2);
  std::transform(edges.begin(), edges.end(), edges.begin(), mel_to_hertz);
  const std::vector<double> hertz = evenly_spaced(0, static_cast<double>(sampling_rate / 2), bins);
  at::Tensor filters = at::empty({bins, mels}, at::kDouble);
  auto* const out = filters.mutable_data_ptr<double>();
  for (int64_t bin = 0; bin < bins; ++bin) {
    for (int64_t mel = 0; mel < mels; ++mel) {
      const auto m = static_cast<std::size_t>(mel);
      const double at = hertz[static_cast<std::size_t>(bin)];
      const double up = -(edges[m] - at) / (edges[m + 1] - edges[m]);
      const double down = (edges[m + 2] - at) / (edges[m + 2] - edges[m + 1]);
      out[bin * mels + mel] = std::max(0.0, std::min(up, down)) * (2.0 / (edges[m + 2] - edges[m]));
    }
  }
  return filters.to(at::kFloat);
}

WhisperFeatureExtractor::WhisperFeatureExtractor(const Json& json, const std::string& where) {
  require<ConfigError>(json.is_object(), where, "an object is needed; got ", json.type_name(), ".");
  read_count(json, "feature_size", 1, feature_size_, where);
  read_count(json, "sampling_rate", 2, sampling_rate_, where);
  read_count(json, "hop_length", 1, hop_length_, where);
  read_count(json, "chunk_length", 1, chunk_length_, where);
  read_count(json, "n_fft", 2, n_fft_, where);
  padding_value_ = read_number(json, "padding_value", 0, where);
  const double dither = read_number(json, "dither", 0, where);
  require<NotSupportedError>(
      dither == 0, where, "dither must be 0, because noise would make results differ between runs; got ", dither, ".");
  if (const Json* side = json.find("padding_side"); side && !side->is_null()) {
    const std::string name = side->is_string() ? side->as_string() : side->dump();
    require<ConfigError>(name == "left" || name == "right", where, "padding_side must be left or right; got ", name,
                         ".");
    pads_left_ = name == "left";
  }
  require<ConfigError>(samples() > n_fft_ / 2, where,
                       "chunk_length times sampling_rate must be more than half of n_fft; got ", samples(), " and ",
                       n_fft_, ".");
  filters_ = slaney_mel_filters(n_fft_, feature_size_, sampling_rate_);
}

at::Tensor WhisperFeatureExtractor::log_mel(const at::Tensor& waves) const {
  const at::Tensor window = at::hann_window(n_fft_);
  const at::Tensor waveform = at::stft(waves, n_fft_, hop_length_, n_fft_, window, /*center=*/true, "reflect",
                                       /*normalized=*/false, /*onesided=*/true, /*return_complex=*/true);
  const at::Tensor power = waveform.narrow(-1, 0, waveform.size(-1) - 1).abs().pow(2).contiguous();
  const at::Tensor logs = at::matmul(filters_.t(), power).clamp_min(1e-10).log10();
  return (at::maximum(logs, logs.amax({1, 2}, /*keepdim=*/true) - 8.0) + 4.0) / 4.0;
}

at::Tensor WhisperFeatureExtractor::padded(const at::Tensor& recording) const {
  require<ShapeError>(recording.dim() == 1 && recording.size(0) > 0,
                      "[WhisperFeatureExtractor] a recording must be samples [n] of one channel; got ",
                      recording.sizes(), ".");
  const int64_t missing = samples() - recording.size(0);
  const at::Tensor wave = recording.to(at::kFloat);
  if (missing <= 0) return wave.narrow(0, 0, samples());
  return at::constant_pad_nd(wave, {pads_left_ ? missing : 0, pads_left_ ? 0 : missing}, padding_value_);
}

at::Tensor WhisperFeatureExtractor::operator()(const std::vector<at::Tensor>& recordings) const {
  require<ShapeError>(!recordings.empty(), "[WhisperFeatureExtractor] at least one recording is needed; got none.");
  std::vector<at::Tensor> waves;
  for (const at::Tensor& recording : recordings) waves.push_back(padded(recording));
  return log_mel(at::stack(waves));
}

at::Tensor WhisperFeatureExtractor::whole(const at::Tensor& recording) const {
  if (recording.dim() != 1 || recording.size(0) <= samples()) return (*this)({recording});
  return log_mel(recording.to(at::kFloat).unsqueeze(0));
}

int64_t WhisperFeatureExtractor::sound_frames(const at::Tensor& recording) const {
  const int64_t count = recording.size(0);
  if (count >= samples()) return count / hop_length_;
  return pads_left_ ? frames() : std::min((count + hop_length_ - 1) / hop_length_, frames());
}

WhisperFeatureExtractor AutoFeatureExtractor::from_directory(const fs::path& directory) {
  Json json;
  fs::path file = directory / "processor_config.json";
  if (fs::exists(file)) {
    const Json all = Json::parse_file(file.string());
    if (const Json* nested = all.find("feature_extractor")) json = *nested;
  }
  if (json.is_null()) {
    file = directory / "preprocessor_config.json";
    require<ConfigError>(fs::exists(file), "[AutoFeatureExtractor] ", directory.string(),
                         " must have preprocessor_config.json, or feature_extractor in processor_config.json; got "
                         "neither.");
    json = Json::parse_file(file.string());
  }
  const std::string where = "[AutoFeatureExtractor] " + file.string() + ": ";
  const Json* type = json.is_object() ? json.find("feature_extractor_type") : nullptr;
  require<NotSupportedError>(!type || (type->is_string() && type->as_string() == "WhisperFeatureExtractor"), where,
                             "feature_extractor_type must be \"WhisperFeatureExtractor\"; got ",
                             type ? type->dump() : "", ".");
  return WhisperFeatureExtractor(json, where);
}

WhisperFeatureExtractor AutoFeatureExtractor::from_pretrained(const std::string& name_or_path, const HubOptions& hub) {
  return from_directory(resolve(name_or_path, hub));
}

}  // namespace easydel

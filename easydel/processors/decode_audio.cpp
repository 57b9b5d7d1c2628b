#include "easydel/processors/decode_audio.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/processors/codecs/sound_file.h"

namespace easydel {

Sound decode_audio(std::string_view bytes, const DecodeAudioOptions& options, const std::string& name) {
  const std::string where = "[decode_audio] " + (name.empty() ? "" : name + ": ");
  require<FormatError>(!bytes.empty(), where, "a recording must have a sample; got an empty file.");
  SoundFile file = read_sound_file(bytes, options.max_samples, where);
  const auto frames = static_cast<int64_t>(file.samples.size()) / file.channels;
  const at::Tensor samples = at::from_blob(file.samples.data(), {frames, file.channels}, at::kFloat).clone();
  require<FormatError>(at::isfinite(samples).all().item<bool>(), where, "samples must be finite; got infinity or NaN.");
  return {samples, file.sampling_rate};
}

at::Tensor mix_to_mono(const Sound& sound) {
  if (sound.samples.size(1) == 1) return sound.samples.select(1, 0).contiguous();
  return sound.samples.to(at::kDouble).mean(1).to(at::kFloat);
}

at::Tensor resample(const at::Tensor& samples, int64_t from_rate, int64_t to_rate) {
  require<ConfigError>(from_rate > 0 && to_rate > 0, "[resample] rates must be positive; got ", from_rate, " and ",
                       to_rate, ".");
  require<ShapeError>(samples.dim() == 1, "[resample] samples must be [frames]; got ", samples.sizes(), ".");
  if (from_rate == to_rate) return samples;
  constexpr double kCrossings = 6, kRolloff = 0.99;
  const int64_t common = std::gcd(from_rate, to_rate), from = from_rate / common, to = to_rate / common;
  const double pass = static_cast<double>(std::min(from, to)) * kRolloff;
  const auto width = static_cast<int64_t>(std::ceil(kCrossings * static_cast<double>(from) / pass));
  // The weights of the inputs around an output repeat after `to` outputs.
  const int64_t taps = 2 * width + 2;
  const auto weight = [&](int64_t phase, int64_t tap) {
    const int64_t whole = phase * from / to;  // the input before this output
    const int64_t input = whole - width + tap;
    const double t = std::clamp((static_cast<double>(input) / static_cast<double>(from) -
                                 static_cast<double>(phase) / static_cast<double>(to)) *
                                    pass,
                                -kCrossings, kCrossings);
    const double window = std::pow(std::cos(t * std::numbers::pi / kCrossings / 2), 2);
    const double angle = t * std::numbers::pi;
    return (angle == 0 ? 1.0 : std::sin(angle) / angle) * window * pass / static_cast<double>(from);
  };
  std::vector<double> weights(static_cast<std::size_t>(to * taps));
  for (int64_t phase = 0; phase < to; ++phase) {
    for (int64_t tap = 0; tap < taps; ++tap) weights[static_cast<std::size_t>(phase * taps + tap)] = weight(phase, tap);
  }
  const at::Tensor given = samples.to(at::kFloat).contiguous();
  const float* const in = given.const_data_ptr<float>();
  const int64_t frames = given.size(0), wanted = (frames * to + from - 1) / from;
  at::Tensor out = at::empty({wanted}, at::kFloat);
  float* const to_samples = out.mutable_data_ptr<float>();
  for (int64_t n = 0; n < wanted; ++n) {
    const double* const w = weights.data() + n % to * taps;
    const int64_t first = n / to * from + n % to * from / to - width;
    double sum = 0;
    for (int64_t tap = std::max<int64_t>(0, -first); tap < std::min(taps, frames - first); ++tap)
      sum += w[tap] * static_cast<double>(in[first + tap]);
    to_samples[n] = static_cast<float>(sum);
  }
  return out;
}

at::Tensor load_audio(const std::filesystem::path& path, int64_t sampling_rate, const DecodeAudioOptions& options) {
  const Sound sound = decode_audio(read_file(path), options, path.string());
  return resample(mix_to_mono(sound), sound.sampling_rate, sampling_rate);
}

}  // namespace easydel

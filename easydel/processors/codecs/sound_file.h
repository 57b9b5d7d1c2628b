// What libsndfile reads of a recording.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace easydel {

struct SoundFile {
  std::vector<float> samples;  // of all channels of a frame, one after the other
  int64_t channels = 0;
  int64_t sampling_rate = 0;
};

// Errors begin with `where`.
SoundFile read_sound_file(std::string_view bytes, int64_t max_samples, const std::string& where);

}  // namespace easydel

#include "easydel/processors/codecs/sound_file.h"
#include "fuzz.h"

using namespace easydel;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  constexpr int64_t kMaxSamples = 1 << 20;
  return fuzz::refuse_or([&] {
    const SoundFile sound = read_sound_file(fuzz::as_text(data, size), kMaxSamples, "[fuzz] ");
    if (static_cast<int64_t>(sound.samples.size()) > kMaxSamples) fuzz::found("more samples than are allowed");
    fuzz::touch(std::as_bytes(std::span(sound.samples)));
  });
}

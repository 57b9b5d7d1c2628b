#include "easydel/processors/codecs/sound_file.h"

#include "easydel/core/error.h"

#if EASYDEL_HAS_SNDFILE
#include <sndfile.h>

#include <algorithm>
#include <cstring>
#include <memory>
#endif

namespace easydel {
#if EASYDEL_HAS_SNDFILE
namespace {

struct SoundBytes {
  std::string_view bytes;
  sf_count_t at = 0;
};

sf_count_t sound_size(void* data) { return static_cast<sf_count_t>(static_cast<SoundBytes*>(data)->bytes.size()); }

sf_count_t sound_seek(sf_count_t offset, int from, void* data) {
  auto& file = *static_cast<SoundBytes*>(data);
  const sf_count_t base = from == SEEK_SET ? 0 : from == SEEK_CUR ? file.at : sound_size(data);
  file.at = std::clamp<sf_count_t>(base + offset, 0, sound_size(data));
  return file.at;
}

sf_count_t sound_read(void* to, sf_count_t count, void* data) {
  auto& file = *static_cast<SoundBytes*>(data);
  const sf_count_t taken = std::clamp<sf_count_t>(count, 0, sound_size(data) - file.at);
  std::memcpy(to, file.bytes.data() + file.at, static_cast<std::size_t>(taken));
  file.at += taken;
  return taken;
}

sf_count_t sound_write(const void*, sf_count_t, void*) { return 0; }
sf_count_t sound_tell(void* data) { return static_cast<SoundBytes*>(data)->at; }

}  // namespace

SoundFile read_sound_file(std::string_view bytes, int64_t max_samples, const std::string& where) {
  SF_VIRTUAL_IO io{sound_size, sound_seek, sound_read, sound_write, sound_tell};
  SoundBytes source{bytes};
  SF_INFO info{};
  const std::unique_ptr<SNDFILE, int (*)(SNDFILE*)> file(sf_open_virtual(&io, SFM_READ, &info, &source), sf_close);
  if (!file) {
    const bool unknown = sf_error(nullptr) == SF_ERR_UNRECOGNISED_FORMAT;
    require<NotSupportedError>(!unknown, where, "a recording must be a WAV, FLAC, Ogg or MP3 file; got ", bytes.size(),
                               " bytes of another format.");
    std::string why = sf_strerror(nullptr);
    while (!why.empty() && (why.back() == '.' || why.back() == ' ' || why.back() == '\n')) why.pop_back();
    fail<FormatError>(where, "the recording must be complete and valid; libsndfile says: ", why, ".");
  }
  SoundFile sound{.channels = info.channels, .sampling_rate = info.samplerate};
  const sf_count_t block = std::max<sf_count_t>(1, 65536 / info.channels);
  std::vector<float> read(static_cast<std::size_t>(block * info.channels));
  int64_t frames = 0;
  while (const sf_count_t got = sf_readf_float(file.get(), read.data(), block)) {
    frames += got;
    require<FormatError>(frames <= max_samples / info.channels, where, "a recording may have ", max_samples,
                         " samples; got more. Cut it into pieces.");
    sound.samples.insert(sound.samples.end(), read.begin(), read.begin() + got * info.channels);
  }
  // What a header promises is the exact number of frames where nothing was lossy.
  const bool lossless = (info.format & SF_FORMAT_TYPEMASK) == SF_FORMAT_FLAC;
  require<FormatError>(sf_error(file.get()) == SF_ERR_NO_ERROR && (!lossless || frames == info.frames), where,
                       "the recording must be complete and valid; its header says ", info.frames, " frames, and ",
                       frames, " can be decoded.");
  require<FormatError>(frames > 0, where, "a recording must have a sample; got none in ", bytes.size(), " bytes.");
  return sound;
}
#else
SoundFile read_sound_file(std::string_view, int64_t, const std::string& where) {
  fail<NotSupportedError>(where, "this build has no audio support; build it with libsndfile (libsndfile1-dev).");
}
#endif

}  // namespace easydel

#include "easydel/core/error.h"
#include "easydel/processors/codecs/raster.h"

#if EASYDEL_HAS_WEBP
#include <webp/decode.h>
#include <webp/demux.h>

#include <cstring>
#include <memory>
#endif

namespace easydel {
#if EASYDEL_HAS_WEBP

namespace {

// The canvas of a file, and what draws on it.
struct WebpReader {
  explicit WebpReader(const DecodeCall& call)
      : file{reinterpret_cast<const uint8_t*>(call.bytes.data()), call.bytes.size()}, where(call.where) {
    WebPBitstreamFeatures features;
    require<FormatError>(WebPGetFeatures(file.bytes, file.size, &features) == VP8_STATUS_OK, where,
                         "the WebP header must be complete; got ", file.size, " bytes that have none.");
    canvas.resize(features.width, features.height, call.max_pixels, where);
    canvas.has_alpha = features.has_alpha != 0;
    WebPAnimDecoderOptions options;
    require<NotSupportedError>(WebPAnimDecoderOptionsInit(&options) != 0, where,
                               "the WebP library is not the one of the build.");
    options.color_mode = MODE_RGBA;
    decoder.reset(WebPAnimDecoderNew(&file, &options));
    require<FormatError>(decoder != nullptr, where,
                         "the WebP data must be complete and valid; its first image cannot be decoded.");
  }

  // When it ends, in milliseconds from the first one's beginning.
  int next(const char* which) {
    uint8_t* pixels = nullptr;
    int timestamp = 0;
    require<FormatError>(WebPAnimDecoderGetNext(decoder.get(), &pixels, &timestamp) != 0, where,
                         "the WebP data must be complete and valid; its ", which, " image cannot be decoded.");
    std::memcpy(canvas.rgba.data(), pixels, canvas.rgba.size());
    return timestamp;
  }

  const WebPData file;
  const std::string& where;
  Raster canvas;
  std::unique_ptr<WebPAnimDecoder, void (*)(WebPAnimDecoder*)> decoder{nullptr, WebPAnimDecoderDelete};
};

}  // namespace

// Of an animation, the first image.
Raster decode_webp(const DecodeCall& call) {
  WebpReader reader(call);
  reader.next("first");
  const WebPDemuxer* const chunks = WebPAnimDecoderGetDemuxer(reader.decoder.get());
  WebPChunkIterator chunk;
  if (WebPDemuxGetChunk(chunks, "EXIF", 1, &chunk)) {
    reader.canvas.orientation = exif_orientation({reinterpret_cast<const char*>(chunk.chunk.bytes), chunk.chunk.size});
    WebPDemuxReleaseChunkIterator(&chunk);
  }
  return std::move(reader.canvas);
}

void decode_webp_frames(const DecodeCall& call, const FrameSink& sink) {
  WebpReader reader(call);
  int before = 0;
  while (WebPAnimDecoderHasMoreFrames(reader.decoder.get())) {
    const int end = reader.next("next");
    sink(reader.canvas, end - before);
    before = end;
  }
}
#else
Raster decode_webp(const DecodeCall& call) {
  fail<NotSupportedError>(call.where, "this build has no WebP support; build it with libwebp (libwebp-dev).");
}
void decode_webp_frames(const DecodeCall& call, const FrameSink&) { decode_webp(call); }
#endif

}  // namespace easydel

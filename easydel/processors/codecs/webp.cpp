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

// Of an animation, the first picture.
Raster decode_webp(const DecodeCall& call) {
  const auto* const data = reinterpret_cast<const uint8_t*>(call.bytes.data());
  WebPBitstreamFeatures features;
  require<FormatError>(WebPGetFeatures(data, call.bytes.size(), &features) == VP8_STATUS_OK, call.where,
                       "the WebP header must be whole; got ", call.bytes.size(), " bytes that have none.");
  Raster raster;
  raster.resize(features.width, features.height, call.max_pixels, call.where);
  raster.has_alpha = features.has_alpha != 0;
  const WebPData file{data, call.bytes.size()};
  WebPAnimDecoderOptions options;
  require<NotSupportedError>(WebPAnimDecoderOptionsInit(&options) != 0, call.where,
                             "the WebP library is not the one of the build.");
  options.color_mode = MODE_RGBA;
  const std::unique_ptr<WebPAnimDecoder, void (*)(WebPAnimDecoder*)> decoder(WebPAnimDecoderNew(&file, &options),
                                                                             WebPAnimDecoderDelete);
  uint8_t* pixels = nullptr;
  int timestamp = 0;
  require<FormatError>(decoder && WebPAnimDecoderGetNext(decoder.get(), &pixels, &timestamp) != 0, call.where,
                       "the WebP data must be whole; its first picture cannot be decoded.");
  std::memcpy(raster.rgba.data(), pixels, raster.rgba.size());
  const WebPDemuxer* const chunks = WebPAnimDecoderGetDemuxer(decoder.get());
  WebPChunkIterator chunk;
  if (WebPDemuxGetChunk(chunks, "EXIF", 1, &chunk)) {
    raster.orientation = exif_orientation({reinterpret_cast<const char*>(chunk.chunk.bytes), chunk.chunk.size});
    WebPDemuxReleaseChunkIterator(&chunk);
  }
  return raster;
}
#else
Raster decode_webp(const DecodeCall& call) {
  fail<NotSupportedError>(call.where, "this build reads no WebP; build it with libwebp (libwebp-dev).");
}
#endif

}  // namespace easydel

#include "easydel/core/error.h"
#include "easydel/processors/codecs/raster.h"

#if EASYDEL_HAS_JPEG
// jpeglib.h wants FILE and size_t declared before it.
#include <cstdio>

#include <jerror.h>
#include <jpeglib.h>

#include <csetjmp>
#include <cstring>
#endif

namespace easydel {
#if EASYDEL_HAS_JPEG
namespace {

struct JpegErrors {
  jpeg_error_mgr manager;  // first: libjpeg hands its address back
  std::jmp_buf back;
  char message[JMSG_LENGTH_MAX] = {};
};

[[noreturn]] void jpeg_fails(j_common_ptr info) {
  auto* const errors = reinterpret_cast<JpegErrors*>(info->err);
  info->err->format_message(info, errors->message);
  std::longjmp(errors->back, 1);
}

// Broken data is filled in with what can be read, as elsewhere; a file that ends too early is refused.
void jpeg_warns(j_common_ptr info, int level) {
  if (level < 0 && info->err->msg_code == JWRN_JPEG_EOF) jpeg_fails(info);
}

// A rounded quotient by 255.
int over_255(int value) {
  const int sum = value + 128;
  return ((sum >> 8) + sum) >> 8;
}

// libjpeg leaves by longjmp: nothing in this function has a destructor.
bool read_jpeg(jpeg_decompress_struct& info, JpegErrors& errors, const DecodeCall& call, Raster& raster,
               std::vector<uint8_t>& row, std::string& refusal) {
  if (setjmp(errors.back)) return false;
  jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(call.bytes.data()), call.bytes.size());
  jpeg_save_markers(&info, JPEG_APP0 + 1, 0xffff);
  jpeg_read_header(&info, TRUE);
  const bool is_cmyk = info.num_components == 4;
  if (is_cmyk) {
    info.out_color_space = JCS_CMYK;
  } else if (info.num_components != 1) {
    info.out_color_space = JCS_RGB;
  }
  for (jpeg_saved_marker_ptr m = info.marker_list; m; m = m->next) {
    const std::string_view data(reinterpret_cast<const char*>(m->data), m->data_length);
    if (m->marker == JPEG_APP0 + 1 && data.starts_with(std::string_view("Exif\0\0", 6))) {
      raster.orientation = exif_orientation(data);
      break;
    }
  }
  try {
    raster.resize(info.image_width, info.image_height, call.max_pixels, call.where);
    row.resize(static_cast<std::size_t>(info.image_width) * 4);
  } catch (const Error& error) {
    refusal = error.what();
    return false;
  }
  jpeg_start_decompress(&info);
  while (info.output_scanline < info.output_height) {
    const int64_t y = info.output_scanline;
    JSAMPROW rows[1] = {row.data()};
    jpeg_read_scanlines(&info, rows, 1);
    for (int64_t x = 0; x < raster.width; ++x) {
      const uint8_t* const p = row.data() + x * info.output_components;
      if (is_cmyk) {
        // Stored inverted, as Adobe's programs do; black is what the others are taken from.
        const int white = p[3];
        raster.set(y, x, white - over_255((255 - p[0]) * white), white - over_255((255 - p[1]) * white),
                   white - over_255((255 - p[2]) * white));
      } else if (info.output_components == 1) {
        raster.set(y, x, p[0], p[0], p[0]);
      } else {
        raster.set(y, x, p[0], p[1], p[2]);
      }
    }
  }
  jpeg_finish_decompress(&info);
  return true;
}

}  // namespace

Raster decode_jpeg(const DecodeCall& call) {
  jpeg_decompress_struct info;
  JpegErrors errors;
  std::memset(&info, 0, sizeof info);
  info.err = jpeg_std_error(&errors.manager);
  errors.manager.error_exit = jpeg_fails;
  errors.manager.emit_message = jpeg_warns;
  jpeg_create_decompress(&info);
  Raster raster;
  std::vector<uint8_t> row;
  std::string refusal;
  const bool done = read_jpeg(info, errors, call, raster, row, refusal);
  jpeg_destroy_decompress(&info);
  require<FormatError>(refusal.empty(), refusal);
  require<FormatError>(done, call.where, "the JPEG data must be complete and valid; got: ", errors.message, ".");
  return raster;
}
#else
Raster decode_jpeg(const DecodeCall& call) {
  fail<NotSupportedError>(call.where,
                          "this build has no JPEG support; build it with libjpeg-turbo (libjpeg62-turbo-dev).");
}
#endif

}  // namespace easydel

#include "easydel/core/error.h"
#include "easydel/processors/codecs/raster.h"

#if EASYDEL_HAS_PNG
#include <png.h>

#include <csetjmp>
#include <cstring>
#endif

namespace easydel {
#if EASYDEL_HAS_PNG
namespace {

struct PngInput {
  std::string_view bytes;
  std::size_t at = 0;
  char message[256] = {};
};

[[noreturn]] void png_fails(png_structp png, png_const_charp message) {
  auto* const input = static_cast<PngInput*>(png_get_error_ptr(png));
  std::strncpy(input->message, message, sizeof input->message - 1);
  png_longjmp(png, 1);
}
void png_warns(png_structp, png_const_charp) {}

void png_reads(png_structp png, png_bytep to, std::size_t count) {
  auto* const input = static_cast<PngInput*>(png_get_io_ptr(png));
  if (count > input->bytes.size() - input->at) png_error(png, "the file ends too early");
  std::memcpy(to, input->bytes.data() + input->at, count);
  input->at += count;
}

// The palette and what is transparent, and how many bytes a pixel has before they are applied.
struct PngFormat {
  int color = 0, depth = 0, samples = 1;
  png_colorp palette = nullptr;
  int colors = 0;
  png_bytep alphas = nullptr;
  int alpha_count = 0;
  png_color_16p key = nullptr;
  bool has_key = false;
};

struct PngState {
  png_structp png = nullptr;
  png_infop info = nullptr;
  std::vector<uint8_t> pixels;
  std::vector<png_bytep> rows;
};

void put_pixel(Raster& raster, const PngFormat& f, int64_t y, int64_t x, const uint8_t* p) {
  if (f.color == PNG_COLOR_TYPE_PALETTE) {
    const int i = p[0];
    const int alpha = i < f.alpha_count ? f.alphas[i] : 255;
    // A grey ramp stands behind a palette that is too short.
    if (i < f.colors) return raster.set(y, x, f.palette[i].red, f.palette[i].green, f.palette[i].blue, alpha);
    return raster.set(y, x, i, i, i, alpha);
  }
  const bool is_gray = (f.color & PNG_COLOR_MASK_COLOR) == 0;
  if (f.color & PNG_COLOR_MASK_ALPHA) {
    return is_gray ? raster.set(y, x, p[0], p[0], p[0], p[1]) : raster.set(y, x, p[0], p[1], p[2], p[3]);
  }
  if (is_gray) {
    int key = -1;  // of one bit it is black or white; else the sample's own number
    if (f.has_key) key = f.depth == 1 ? (f.key->gray ? 255 : 0) : f.key->gray;
    return raster.set(y, x, p[0], p[0], p[0], p[0] == key ? 0 : 255);
  }
  const bool is_key = f.has_key && p[0] == f.key->red && p[1] == f.key->green && p[2] == f.key->blue;
  raster.set(y, x, p[0], p[1], p[2], is_key ? 0 : 255);
}

// libpng leaves by longjmp: nothing in this function has a destructor.
bool read_png(PngState& state, PngInput& input, const DecodeCall& call, Raster& raster, std::string& refusal) {
  if (setjmp(png_jmpbuf(state.png))) return false;
  png_structp png = state.png;
  png_infop info = state.info;
  png_set_read_fn(png, &input, png_reads);
  png_set_user_limits(png, 0x7fffffff, 0x7fffffff);  // the pixels are counted below
  png_read_info(png, info);
  PngFormat f;
  png_uint_32 width = 0, height = 0;
  png_get_IHDR(png, info, &width, &height, &f.depth, &f.color, nullptr, nullptr, nullptr);
  try {
    raster.resize(width, height, call.max_pixels, call.where);
  } catch (const Error& error) {
    refusal = error.what();
    return false;
  }
  // Pillow cuts grey of 16 bits off at 255, and takes the upper byte of everything else.
  const bool is_wide_gray = f.depth == 16 && f.color == PNG_COLOR_TYPE_GRAY;
  if (f.depth == 16 && !is_wide_gray) png_set_strip_16(png);
  if (f.depth < 8) {
    if (f.color == PNG_COLOR_TYPE_GRAY) {
      png_set_expand_gray_1_2_4_to_8(png);
    } else {
      png_set_packing(png);
    }
  }
  png_get_PLTE(png, info, &f.palette, &f.colors);
  const png_uint_32 transparent = png_get_tRNS(png, info, &f.alphas, &f.alpha_count, &f.key);
  f.has_key = transparent && f.color != PNG_COLOR_TYPE_PALETTE && f.key;
  if (f.color != PNG_COLOR_TYPE_PALETTE) f.alpha_count = 0;
  raster.has_alpha = transparent || (f.color & PNG_COLOR_MASK_ALPHA);
  f.samples = png_get_channels(png, info);
  png_set_interlace_handling(png);
  png_read_update_info(png, info);
  const std::size_t row_bytes = png_get_rowbytes(png, info);
  state.pixels.resize(row_bytes * height);
  state.rows.resize(height);
  for (png_uint_32 y = 0; y < height; ++y) state.rows[y] = state.pixels.data() + y * row_bytes;
  png_read_image(png, state.rows.data());
  png_read_end(png, info);
  for (png_uint_32 y = 0; y < height; ++y) {
    for (png_uint_32 x = 0; x < width; ++x) {
      const uint8_t* const at = state.rows[y] + x * f.samples * (is_wide_gray ? 2 : 1);
      const uint8_t cut_off = at[0] != 0 && is_wide_gray ? 255 : is_wide_gray ? at[1] : 0;
      put_pixel(raster, f, y, x, is_wide_gray ? &cut_off : at);
    }
  }
#ifdef PNG_eXIf_SUPPORTED
  png_bytep exif = nullptr;
  png_uint_32 exif_size = 0;
  if (png_get_eXIf_1(png, info, &exif_size, &exif))
    raster.orientation = exif_orientation({reinterpret_cast<const char*>(exif), exif_size});
#endif
  return true;
}

}  // namespace

Raster decode_png(const DecodeCall& call) {
  PngInput input{call.bytes};
  PngState state;
  state.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &input, png_fails, png_warns);
  state.info = state.png ? png_create_info_struct(state.png) : nullptr;
  Raster raster;
  std::string refusal;
  const bool done = state.info && read_png(state, input, call, raster, refusal);
  png_destroy_read_struct(&state.png, state.info ? &state.info : nullptr, nullptr);
  require<FormatError>(refusal.empty(), refusal);
  require<FormatError>(done, call.where, "the PNG data must be complete and valid; got: ", input.message, ".");
  return raster;
}
#else
Raster decode_png(const DecodeCall& call) {
  fail<NotSupportedError>(call.where, "this build has no PNG support; build it with libpng (libpng-dev).");
}
#endif

}  // namespace easydel

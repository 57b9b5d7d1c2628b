#include "easydel/processors/image_steps.h"

#include <ATen/ATen.h>
#include <ATen/Version.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "easydel/core/error.h"

namespace easydel {
namespace {

int64_t truncated(double value) { return static_cast<int64_t>(value); }

HeightWidth size_of(const at::Tensor& image) { return {image.size(-2), image.size(-1)}; }

HeightWidth by_shortest_edge(HeightWidth given, int64_t edge) {
  const bool is_high = given.width <= given.height;
  const int64_t shorter = is_high ? given.width : given.height, longer = is_high ? given.height : given.width;
  const int64_t other = truncated(static_cast<double>(edge * longer) / static_cast<double>(shorter));
  return is_high ? HeightWidth{other, edge} : HeightWidth{edge, other};
}

HeightWidth between_edges(HeightWidth given, int64_t edge, int64_t longest) {
  const auto height = static_cast<double>(given.height), width = static_cast<double>(given.width);
  const double least = std::min(height, width), most = std::max(height, width);
  auto target = static_cast<double>(edge);
  if (most / least * target > static_cast<double>(longest)) {
    target = static_cast<double>(longest) * least / most;
    edge = static_cast<int64_t>(std::nearbyint(target));  // half to even, as Python rounds
  }
  if ((given.height <= given.width && given.height == edge) || (given.width <= given.height && given.width == edge))
    return given;
  if (given.width < given.height) return {truncated(target * height / width), edge};
  return {edge, truncated(target * width / height)};
}

bool resizes_bytes_bilinearly() {
  const std::string_view capability = at::get_cpu_capability();
  return capability == "AVX2" || capability == "AVX512";
}

}  // namespace

HeightWidth resized_size(HeightWidth given, const ImageSize& size) {
  if (size.shortest_edge && size.longest_edge) return between_edges(given, *size.shortest_edge, *size.longest_edge);
  if (size.shortest_edge) return by_shortest_edge(given, *size.shortest_edge);
  if (size.max_height && size.max_width) {
    const double scale = std::min(static_cast<double>(*size.max_height) / static_cast<double>(given.height),
                                  static_cast<double>(*size.max_width) / static_cast<double>(given.width));
    return {truncated(static_cast<double>(given.height) * scale), truncated(static_cast<double>(given.width) * scale)};
  }
  require<ConfigError>(size.height && size.width,
                       "[ImageProcessor] size must have height and width, shortest_edge, or max_height and max_width.");
  return {*size.height, *size.width};
}

HeightWidth fitting_size(HeightWidth given, int64_t factor, int64_t least, int64_t most) {
  const auto height = static_cast<double>(given.height), width = static_cast<double>(given.width);
  const auto unit = static_cast<double>(factor);
  require<ShapeError>(std::max(height, width) / std::min(height, width) <= 200,
                      "[ImageProcessor] the aspect ratio may be at most 200; got ", given.height, " x ", given.width,
                      ".");
  const auto in_units = [&](double edges) { return static_cast<int64_t>(edges) * factor; };
  HeightWidth size{in_units(std::nearbyint(height / unit)), in_units(std::nearbyint(width / unit))};  // half to even
  if (size.height * size.width > most) {
    const double beta = std::sqrt(height * width / static_cast<double>(most));
    size = {std::max(factor, in_units(std::floor(height / beta / unit))),
            std::max(factor, in_units(std::floor(width / beta / unit)))};
  } else if (size.height * size.width < least) {
    const double beta = std::sqrt(static_cast<double>(least) / (height * width));
    size = {in_units(std::ceil(height * beta / unit)), in_units(std::ceil(width * beta / unit))};
  }
  return size;
}

at::Tensor resize_image(const at::Tensor& image, HeightWidth to, Resample resample) {
  if (size_of(image) == to) return image;
  require<ShapeError>(to.height > 0 && to.width > 0, "[ImageProcessor] an image of ", image.size(-2), " x ",
                      image.size(-1), " cannot be resized to ", to.height, " x ", to.width,
                      ": its sides differ too much. Crop it, or pad it to a less elongated one.");
  const at::Tensor batch = image.unsqueeze(0);
  const std::vector<int64_t> size{to.height, to.width};
  if (resample == Resample::Nearest) return at::_upsample_nearest_exact2d(batch, size).squeeze(0);
  if (resample == Resample::Lanczos) {
#if __has_include(<ATen/ops/_upsample_lanczos2d_aa.h>)
    return at::_upsample_lanczos2d_aa(batch, size, false).squeeze(0);
#else
    fail<NotSupportedError>("[ImageProcessor] resample 1 (lanczos) needs libtorch 2.12; this build has an older one.");
#endif
  }
  if (resample == Resample::Bicubic) return at::_upsample_bicubic2d_aa(batch, size, false).squeeze(0);
  if (resizes_bytes_bilinearly()) return at::_upsample_bilinear2d_aa(batch, size, false).squeeze(0);
  return at::_upsample_bilinear2d_aa(batch.to(at::kFloat), size, false).round_().to(at::kByte).squeeze(0);
}

at::Tensor center_crop(const at::Tensor& image, HeightWidth to) {
  at::Tensor padded = image;
  const HeightWidth given = size_of(image);
  if (to.width > given.width || to.height > given.height) {
    const int64_t right = std::max<int64_t>(to.width - given.width, 0);
    const int64_t down = std::max<int64_t>(to.height - given.height, 0);
    padded = at::constant_pad_nd(image, {right / 2, (right + 1) / 2, down / 2, (down + 1) / 2}, 0);
  }
  const HeightWidth now = size_of(padded);
  return padded.narrow(-2, (now.height - to.height) / 2, to.height).narrow(-1, (now.width - to.width) / 2, to.width);
}

at::Tensor pad_to_square(const at::Tensor& image, const std::vector<double>& mean) {
  const HeightWidth given = size_of(image);
  if (given.height == given.width) return image;
  const int64_t edge = std::max(given.height, given.width);
  at::Tensor out = at::empty({image.size(0), edge, edge}, image.options());
  for (int64_t c = 0; c < out.size(0); ++c) {
    const double level = mean[std::min<std::size_t>(static_cast<std::size_t>(c), mean.size() - 1)];
    out.select(0, c).fill_(truncated(level * 255));
  }
  out.narrow(1, (edge - given.height) / 2, given.height).narrow(2, (edge - given.width) / 2, given.width).copy_(image);
  return out;
}

at::Tensor pad_below(const at::Tensor& image, HeightWidth to) {
  const HeightWidth given = size_of(image);
  require<ShapeError>(to.height >= given.height && to.width >= given.width, "[ImageProcessor] images of ", given.height,
                      " x ", given.width, " must fit into pad_size; got ", to.height, " x ", to.width, ".");
  return at::constant_pad_nd(image, {0, to.width - given.width, 0, to.height - given.height}, 0);
}

}  // namespace easydel

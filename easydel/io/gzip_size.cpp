#include "easydel/io/gzip_size.h"

#include "easydel/core/build_info.h"
#include "easydel/core/error.h"

#if EASYDEL_HAS_ZLIB
#include <zlib.h>

#include <vector>
#endif

namespace easydel {

namespace {

int64_t deflated_size(std::string_view text, bool as_gzip, const char* where) {
#if EASYDEL_HAS_ZLIB
  z_stream stream{};
  constexpr int kWindow = 15, kGzipHeader = 16;
  const int level = as_gzip ? Z_BEST_COMPRESSION : Z_DEFAULT_COMPRESSION;
  require<Error>(
      deflateInit2(&stream, level, Z_DEFLATED, kWindow + (as_gzip ? kGzipHeader : 0), 8, Z_DEFAULT_STRATEGY) == Z_OK,
      "[", where, "] zlib cannot be initialized.");
  std::vector<Bytef> out(deflateBound(&stream, static_cast<uLong>(text.size())));
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = out.data();
  stream.avail_out = static_cast<uInt>(out.size());
  const int done = deflate(&stream, Z_FINISH);
  const auto size = static_cast<int64_t>(stream.total_out);
  deflateEnd(&stream);
  require<Error>(done == Z_STREAM_END, "[", where, "] zlib failed.");
  return size;
#else
  (void)text;
  (void)as_gzip;
  fail<NotSupportedError>("[", where, "] this build has no zlib. Install zlib1g-dev, then configure and build again.");
#endif
}

}  // namespace

int64_t gzip_size(std::string_view text) { return deflated_size(text, /*as_gzip=*/true, "gzip_size"); }

int64_t zlib_size(std::string_view text) { return deflated_size(text, /*as_gzip=*/false, "zlib_size"); }

}  // namespace easydel

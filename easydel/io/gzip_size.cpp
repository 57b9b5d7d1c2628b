#include "easydel/io/gzip_size.h"

#include "easydel/core/build_info.h"
#include "easydel/core/error.h"

#if EASYDEL_HAS_ZLIB
#include <zlib.h>

#include <vector>
#endif

namespace easydel {

int64_t gzip_size(std::string_view text) {
#if EASYDEL_HAS_ZLIB
  z_stream stream{};
  constexpr int kWithGzipHeader = 15 + 16;
  require<Error>(deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, kWithGzipHeader, 8, Z_DEFAULT_STRATEGY) == Z_OK,
                 "[gzip_size] zlib cannot be initialized.");
  std::vector<Bytef> out(deflateBound(&stream, static_cast<uLong>(text.size())));
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = out.data();
  stream.avail_out = static_cast<uInt>(out.size());
  const int done = deflate(&stream, Z_FINISH);
  const auto size = static_cast<int64_t>(stream.total_out);
  deflateEnd(&stream);
  require<Error>(done == Z_STREAM_END, "[gzip_size] zlib failed.");
  return size;
#else
  (void)text;
  fail<NotSupportedError>("[gzip_size] this build has no zlib. Install zlib1g-dev, then configure and build again.");
#endif
}

}  // namespace easydel

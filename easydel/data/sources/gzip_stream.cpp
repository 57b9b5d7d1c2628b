#include "easydel/core/build_info.h"
#include "easydel/core/error.h"
#include "easydel/data/sources/byte_stream.h"

#if EASYDEL_HAS_ZLIB
#include <zlib.h>

#include <new>
#include <vector>
#endif

namespace easydel::data {

#if EASYDEL_HAS_ZLIB

namespace {

// Concatenated members are one file, as with gzip.
class GzipStream : public ByteStream {
 public:
  GzipStream(std::unique_ptr<ByteStream> bytes, std::string where)
      : bytes_(std::move(bytes)), where_(std::move(where)), in_(std::size_t{1} << 16) {
    if (inflateInit2(&stream_, MAX_WBITS + 16) != Z_OK) throw std::bad_alloc();
  }
  ~GzipStream() override { inflateEnd(&stream_); }
  GzipStream(const GzipStream&) = delete;
  GzipStream& operator=(const GzipStream&) = delete;

  std::size_t read(std::span<char> out) override {
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    stream_.avail_out = static_cast<uInt>(std::min<std::size_t>(out.size(), std::size_t{1} << 30));
    const uInt room = stream_.avail_out;
    while (!done_ && stream_.avail_out == room) step();
    return room - stream_.avail_out;
  }

 private:
  bool fill() {  // whether there is input
    if (stream_.avail_in > 0) return true;
    stream_.next_in = reinterpret_cast<Bytef*>(in_.data());
    stream_.avail_in = static_cast<uInt>(bytes_->read(in_));
    return stream_.avail_in > 0;
  }

  void step() {
    if (!fill()) {
      require<FormatError>(between_, "[", where_, "] the gzip file is truncated.");
      done_ = true;
      return;
    }
    between_ = false;
    const int status = ::inflate(&stream_, Z_NO_FLUSH);
    if (status == Z_STREAM_END) {
      between_ = true;
      inflateReset(&stream_);
      return;
    }
    require<FormatError>(status == Z_OK, "[", where_, "] is not a valid gzip file",
                         stream_.msg ? concat(" (", stream_.msg, ")") : "", ".");
  }

  std::unique_ptr<ByteStream> bytes_;
  std::string where_;
  std::vector<char> in_;
  z_stream stream_{};
  bool between_ = false;  // after the end of a member
  bool done_ = false;
};

}  // namespace

std::unique_ptr<ByteStream> make_gzip_stream(std::unique_ptr<ByteStream> bytes, std::string where) {
  return std::make_unique<GzipStream>(std::move(bytes), std::move(where));
}

#else

std::unique_ptr<ByteStream> make_gzip_stream(std::unique_ptr<ByteStream>, std::string where) {
  fail<NotSupportedError>("[", where,
                          "] is compressed with gzip, and this build has no zlib. Install zlib1g-dev and "
                          "build again, or decompress the file.");
}

#endif

}  // namespace easydel::data

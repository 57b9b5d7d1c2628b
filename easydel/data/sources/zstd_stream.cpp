#include "easydel/core/build_info.h"
#include "easydel/core/error.h"
#include "easydel/data/sources/byte_stream.h"

#if EASYDEL_HAS_ZSTD
#include <zstd.h>

#include <new>
#include <vector>
#endif

namespace easydel::data {

#if EASYDEL_HAS_ZSTD

namespace {

// Concatenated frames are one file.
class ZstdStream : public ByteStream {
 public:
  ZstdStream(std::unique_ptr<ByteStream> bytes, std::string where)
      : bytes_(std::move(bytes)), where_(std::move(where)), in_(ZSTD_DStreamInSize()), context_(ZSTD_createDCtx()) {
    if (!context_) throw std::bad_alloc();
  }
  ~ZstdStream() override { ZSTD_freeDCtx(context_); }
  ZstdStream(const ZstdStream&) = delete;
  ZstdStream& operator=(const ZstdStream&) = delete;

  std::size_t read(std::span<char> out) override {
    ZSTD_outBuffer output{out.data(), out.size(), 0};
    while (output.pos == 0) {
      if (input_.pos == input_.size && !held_back_) {
        input_ = {in_.data(), bytes_->read(in_), 0};
        if (input_.size == 0) {
          require<FormatError>(between_, "[", where_, "] the zstd file is truncated.");
          return 0;
        }
      }
      const std::size_t left = ZSTD_decompressStream(context_, &output, &input_);
      require<FormatError>(!ZSTD_isError(left), "[", where_, "] is not a valid zstd file (", ZSTD_getErrorName(left),
                           ").");
      between_ = left == 0;
      held_back_ = output.pos == output.size && left != 0;  // there may be more, without further input
    }
    return output.pos;
  }

 private:
  std::unique_ptr<ByteStream> bytes_;
  std::string where_;
  std::vector<char> in_;
  ZSTD_DCtx* context_;
  ZSTD_inBuffer input_{nullptr, 0, 0};
  bool between_ = false;  // after the end of a frame
  bool held_back_ = false;
};

}  // namespace

std::unique_ptr<ByteStream> make_zstd_stream(std::unique_ptr<ByteStream> bytes, std::string where) {
  return std::make_unique<ZstdStream>(std::move(bytes), std::move(where));
}

#else

std::unique_ptr<ByteStream> make_zstd_stream(std::unique_ptr<ByteStream>, std::string where) {
  fail<NotSupportedError>("[", where,
                          "] is compressed with zstd, and this build has no libzstd. Install libzstd-dev "
                          "and build again, or decompress the file.");
}

#endif

}  // namespace easydel::data

#include "easydel/data/sources/byte_stream.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "easydel/core/error.h"
#include "easydel/core/text/bytes.h"

namespace easydel::data {
namespace {

class FileStream : public ByteStream {
 public:
  explicit FileStream(const std::filesystem::path& path)
      : path_(path), fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    require<IoError>(fd_ >= 0, "[data] cannot open ", path.string(), ": ", errno_text(errno), ".");
  }
  ~FileStream() override { ::close(fd_); }
  FileStream(const FileStream&) = delete;
  FileStream& operator=(const FileStream&) = delete;

  std::size_t read(std::span<char> out) override {
    for (;;) {
      const ssize_t got = ::read(fd_, out.data(), out.size());
      if (got >= 0) return static_cast<std::size_t>(got);
      require<IoError>(errno == EINTR, "[data] cannot read ", path_.string(), ": ", errno_text(errno), ".");
    }
  }

 private:
  std::filesystem::path path_;
  int fd_;
};

}  // namespace

Compression compression_of(const std::filesystem::path& path) {
  const std::string end = path.extension().string();
  return end == ".gz" ? Compression::Gzip : end == ".zst" ? Compression::Zstd : Compression::None;
}

std::unique_ptr<ByteStream> open_stream(const std::filesystem::path& path) {
  auto file = std::make_unique<FileStream>(path);
  switch (compression_of(path)) {
    case Compression::Gzip: return make_gzip_stream(std::move(file), path.string());
    case Compression::Zstd: return make_zstd_stream(std::move(file), path.string());
    case Compression::None: break;
  }
  return file;
}

std::string read_all(ByteStream& stream, std::size_t limit, const std::string& where) {
  std::string all;
  constexpr std::size_t kPiece = std::size_t{1} << 18;
  for (;;) {
    const std::size_t size = all.size();
    all.resize(size + kPiece);
    const std::size_t got = stream.read({all.data() + size, kPiece});
    all.resize(size + got);
    if (got == 0) return all;
    require<FormatError>(all.size() <= limit, "[", where, "] is longer than ",
                         format_bytes(static_cast<int64_t>(limit)),
                         ", the limit for a file that is read at once. Save it as JSONL.");
  }
}

}  // namespace easydel::data

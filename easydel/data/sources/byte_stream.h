// Sequential byte streams: a plain file, or the content of .gz and .zst.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace easydel::data {

class ByteStream {
 public:
  virtual ~ByteStream() = default;
  // The number of bytes written to `out`; 0 at the end. FormatError on damaged or truncated content.
  virtual std::size_t read(std::span<char> out) = 0;
};

enum class Compression { None, Gzip, Zstd };
Compression compression_of(const std::filesystem::path& path);  // by file extension

// IoError when it cannot be read; NotSupportedError when the build lacks the library, with its package.
std::unique_ptr<ByteStream> open_stream(const std::filesystem::path& path);

// Each wraps the bytes of a file; `where` names it in errors.
std::unique_ptr<ByteStream> make_gzip_stream(std::unique_ptr<ByteStream> bytes, std::string where);
std::unique_ptr<ByteStream> make_zstd_stream(std::unique_ptr<ByteStream> bytes, std::string where);

// Reads everything. FormatError when it is longer than `limit`.
std::string read_all(ByteStream& stream, std::size_t limit, const std::string& where);

}  // namespace easydel::data

#include "easydel/core/build_info.h"
#include "easydel/io/torch/zip.h"

#if EASYDEL_HAS_ZLIB
#include <zlib.h>

#include <algorithm>
#include <new>
#endif

namespace easydel {

#if EASYDEL_HAS_ZLIB

std::vector<std::byte> ZipArchive::inflate(const ZipEntry& entry) const {
  std::span<const std::byte> in = stored_bytes(entry);
  struct Stream : z_stream {
    Stream() : z_stream{} { ok = inflateInit2(this, -MAX_WBITS) == Z_OK; }
    ~Stream() { inflateEnd(this); }
    bool ok = false;
  } stream;
  if (!stream.ok) throw std::bad_alloc();

  constexpr std::size_t kPiece = std::size_t{1} << 20;
  std::vector<std::byte> out;
  std::size_t done = 0;
  int status = Z_OK;
  while (status == Z_OK) {
    if (stream.avail_in == 0) {
      const std::size_t piece = std::min(in.size(), kPiece);
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(in.data()));
      stream.avail_in = static_cast<uInt>(piece);
      in = in.subspan(piece);
    }
    // One byte more than claimed, to detect content that is too long.
    if (done == out.size()) out.resize(std::min<uint64_t>(entry.size + 1, std::max(2 * done, kPiece)));
    const std::size_t room = std::min(out.size() - done, kPiece);
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + done);
    stream.avail_out = static_cast<uInt>(room);
    status = ::inflate(&stream, Z_NO_FLUSH);
    done += room - stream.avail_out;
    check(entry, done <= entry.size, "has more than the ", entry.size, " bytes that it claims.");
  }
  check(entry, status == Z_STREAM_END || status == Z_BUF_ERROR, "is not a valid deflate stream",
        stream.msg ? concat(" (", stream.msg, ")") : "", ".");
  check(entry, status == Z_STREAM_END && done == entry.size, "holds ", done, " bytes; the directory claims ",
        entry.size, ".");
  check(entry, in.empty() && stream.avail_in == 0, "has data after the end of its deflate stream.");
  out.resize(done);
  const uint32_t crc = crc32_z(0, reinterpret_cast<const Bytef*>(out.data()), out.size());
  check(entry, crc == entry.crc32, "is damaged: its checksum does not match.");
  return out;
}

#else

std::vector<std::byte> ZipArchive::inflate(const ZipEntry& entry) const {
  fail<NotSupportedError>("[", where_, "] zip entry ", quoted(entry.name),
                          " is compressed, and this build has no zlib. Build with zlib, or save the file again with "
                          "torch.save, which does not compress.");
}

#endif

}  // namespace easydel

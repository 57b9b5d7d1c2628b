// The directory of a zip archive in memory, treated as untrusted input.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "easydel/core/error.h"
#include "easydel/core/text/quoted.h"

namespace easydel {

struct ZipEntry {
  std::string_view name;
  uint64_t size = 0;           // of the content
  uint64_t stored_size = 0;    // in the file; the same unless deflated
  uint64_t header_offset = 0;  // of the entry's own header, which the content follows
  uint64_t end = 0;            // where the next entry or the directory begins
  uint32_t crc32 = 0;
  bool deflated = false;
};

// A deflated entry may grow by this factor; entries up to a size that is never a bomb are always accepted.
struct ZipLimits {
  uint64_t max_growth = 200;
  uint64_t harmless_size = uint64_t{16} << 20;
};

// Reads the directory at once (zip64 too) and an entry's own header when its bytes are requested. Each fault has its
// own FormatError; encrypted entries and methods other than "stored" and "deflated" are NotSupportedError.
class ZipArchive {
 public:
  // The bytes must outlive the archive. `where` is named in errors.
  ZipArchive(std::span<const std::byte> bytes, std::string where, ZipLimits limits = {});

  const std::vector<ZipEntry>& entries() const { return entries_; }  // in the order of the directory
  const ZipEntry* find(std::string_view name) const;                 // null when absent

  // The entry's bytes in the archive: its content, or the deflated content.
  std::span<const std::byte> stored_bytes(const ZipEntry& entry) const;
  // The content of a deflated entry, checked against its size and its checksum. Memory grows with the data, not with
  // what the directory claims. NotSupportedError in a build without zlib.
  std::vector<std::byte> inflate(const ZipEntry& entry) const;

 private:
  // FormatError "[where] zip entry "name" …" unless the condition holds.
  template <class... Parts>
  void check(const ZipEntry& entry, bool condition, const Parts&... parts) const {
    if (!condition) fail<FormatError>("[", where_, "] zip entry ", quoted(entry.name), " ", parts...);
  }
  struct Directory {
    uint64_t offset = 0, size = 0, entries = 0;
  };
  Directory find_directory() const;
  void apply_zip64(std::size_t locator_at, Directory& directory) const;
  void read_directory(const Directory& directory);
  void check_claims(const ZipEntry& entry) const;
  void index_names();
  void check_overlaps(uint64_t directory_offset);

  std::span<const std::byte> bytes_;
  std::string where_;
  ZipLimits limits_;
  std::vector<ZipEntry> entries_;
  std::vector<std::size_t> by_name_;  // indices into entries_, sorted: no hash that crafted names could flood
};

}  // namespace easydel

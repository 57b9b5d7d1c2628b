// The directory of a zip archive in memory: nothing that it says is believed before it is checked.
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

// A deflated entry may grow this many times over, and any entry up to the size that is never a bomb.
struct ZipLimits {
  uint64_t max_growth = 200;
  uint64_t harmless_size = uint64_t{16} << 20;
};

// Reads the directory at once (zip64 too) and an entry's own header when its bytes are asked for. Every fault is a
// FormatError of its own; encrypted entries and other methods than "stored" and "deflated" are NotSupportedError.
class ZipArchive {
 public:
  // The bytes must outlive the archive. `where` is named in errors.
  ZipArchive(std::span<const std::byte> bytes, std::string where, ZipLimits limits = {});

  const std::vector<ZipEntry>& entries() const { return entries_; }  // in the order of the directory
  const ZipEntry* find(std::string_view name) const;                 // null when absent

  // The entry as it lies in the archive: its content, or what that was deflated to.
  std::span<const std::byte> stored_bytes(const ZipEntry& entry) const;
  // The content of a deflated entry, checked against its size and its checksum. Allocates as the data comes, not what
  // the directory claims. NotSupportedError in a build without zlib.
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

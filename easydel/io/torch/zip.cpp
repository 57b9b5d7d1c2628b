#include "easydel/io/torch/zip.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "easydel/core/error.h"
#include "easydel/core/text/utf8.h"
#include "easydel/io/byte_reader.h"

namespace easydel {
namespace {

constexpr uint32_t kEntrySignature = 0x04034b50;
constexpr uint32_t kDirectorySignature = 0x02014b50;
constexpr uint32_t kEndSignature = 0x06054b50;
constexpr uint32_t kEnd64Signature = 0x06064b50;
constexpr uint32_t kLocatorSignature = 0x07064b50;
constexpr std::size_t kEntryHeader = 30, kDirectoryHeader = 46, kEnd = 22, kEnd64 = 56, kLocator = 20;
constexpr uint16_t kEncrypted = 1 << 0, kSizesFollow = 1 << 3;
constexpr uint16_t kStored = 0, kDeflated = 8;
constexpr uint16_t kZip64Extra = 1;
constexpr uint32_t kIn64 = 0xffffffff;  // the real value is in a 64-bit field

template <class T>
T load(std::span<const std::byte> bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

// The values of a zip64 extra field replace those that are saturated, in this order and only those.
bool apply_zip64_extra(std::span<const std::byte> extra, std::initializer_list<uint64_t*> values) {
  std::size_t at = 0;
  while (extra.size() - at >= 4) {
    const auto id = load<uint16_t>(extra, at);
    const auto size = load<uint16_t>(extra, at + 2);
    at += 4;
    if (size > extra.size() - at) break;
    if (id != kZip64Extra) {
      at += size;
      continue;
    }
    const std::size_t end = at + size;
    for (uint64_t* value : values) {
      if (*value != kIn64) continue;
      if (end - at < 8) return false;
      *value = load<uint64_t>(extra, at);
      at += 8;
    }
    return true;
  }
  return std::none_of(values.begin(), values.end(), [](const uint64_t* value) { return *value == kIn64; });
}

bool is_absolute(std::string_view name) {
  return name.starts_with('/') || name.starts_with('\\') || (name.size() > 1 && name[1] == ':');
}

bool climbs(std::string_view name) {
  while (true) {
    const std::size_t cut = name.find_first_of("/\\");
    if (name.substr(0, cut) == "..") return true;
    if (cut == std::string_view::npos) return false;
    name.remove_prefix(cut + 1);
  }
}

}  // namespace

ZipArchive::ZipArchive(std::span<const std::byte> bytes, std::string where, ZipLimits limits)
    : bytes_(bytes), where_(std::move(where)), limits_(limits) {
  const Directory directory = find_directory();
  read_directory(directory);
  for (const ZipEntry& entry : entries_) check_claims(entry);
  index_names();
  check_overlaps(directory.offset);
}

const ZipEntry* ZipArchive::find(std::string_view name) const {
  const auto it = std::lower_bound(by_name_.begin(), by_name_.end(), name,
                                   [&](std::size_t i, std::string_view wanted) { return entries_[i].name < wanted; });
  return it != by_name_.end() && entries_[*it].name == name ? &entries_[*it] : nullptr;
}

ZipArchive::Directory ZipArchive::find_directory() const {
  // The end record is last in the file, except for a comment of at most 64 KiB, whose length it gives.
  std::optional<std::size_t> end;
  for (std::size_t comment = 0; comment <= 0xffff && comment + kEnd <= bytes_.size() && !end; ++comment) {
    const std::size_t at = bytes_.size() - kEnd - comment;
    if (load<uint32_t>(bytes_, at) == kEndSignature && load<uint16_t>(bytes_, at + 20) == comment) end = at;
  }
  require<FormatError>(end.has_value(), "[", where_,
                       "] is not a complete zip archive: it has no end record. It may be truncated.");
  require<NotSupportedError>(load<uint16_t>(bytes_, *end + 4) == 0 && load<uint16_t>(bytes_, *end + 6) == 0, "[",
                             where_, "] is one part of a zip archive that was split.");
  Directory directory{.offset = load<uint32_t>(bytes_, *end + 16),
                      .size = load<uint32_t>(bytes_, *end + 12),
                      .entries = load<uint16_t>(bytes_, *end + 10)};
  std::size_t limit = *end;
  if (*end >= kLocator && load<uint32_t>(bytes_, *end - kLocator) == kLocatorSignature) {
    limit = *end - kLocator;
    apply_zip64(limit, directory);
  }
  require<FormatError>(directory.offset <= limit && directory.size <= limit - directory.offset, "[", where_,
                       "] the zip directory must be before the end record at byte ", limit, "; got ", directory.size,
                       " bytes at ", directory.offset, ".");
  require<FormatError>(directory.entries <= directory.size / kDirectoryHeader, "[", where_, "] the zip directory of ",
                       directory.size, " bytes cannot hold the ", directory.entries, " entries that it claims.");
  return directory;
}

void ZipArchive::apply_zip64(std::size_t locator_at, Directory& directory) const {
  const auto at = load<uint64_t>(bytes_, locator_at + 8);
  require<FormatError>(at <= locator_at && locator_at - at >= kEnd64 && load<uint32_t>(bytes_, at) == kEnd64Signature,
                       "[", where_, "] the zip64 locator points to byte ", at, ", where there is no zip64 end record.");
  const Directory real{.offset = load<uint64_t>(bytes_, at + 48),
                       .size = load<uint64_t>(bytes_, at + 40),
                       .entries = load<uint64_t>(bytes_, at + 32)};
  const auto agree = [](uint64_t small, uint64_t saturated, uint64_t large) {
    return small == saturated || small == large;
  };
  require<FormatError>(agree(directory.offset, kIn64, real.offset) && agree(directory.size, kIn64, real.size) &&
                           agree(directory.entries, 0xffff, real.entries),
                       "[", where_, "] the two end records of the zip archive disagree.");
  directory = real;
}

void ZipArchive::read_directory(const Directory& directory) {
  ByteReader reader(bytes_.subspan(directory.offset, directory.size), where_, "zip directory");
  entries_.reserve(directory.entries);
  for (uint64_t i = 0; i < directory.entries; ++i) {
    const std::span<const std::byte> header = reader.take(kDirectoryHeader, "an entry");
    require<FormatError>(load<uint32_t>(header, 0) == kDirectorySignature, "[", where_, "] entry ", i,
                         " of the zip directory does not begin with its signature.");
    ZipEntry entry;
    entry.crc32 = load<uint32_t>(header, 16);
    entry.stored_size = load<uint32_t>(header, 20);
    entry.size = load<uint32_t>(header, 24);
    entry.header_offset = load<uint32_t>(header, 42);
    entry.name = reader.text(load<uint16_t>(header, 28), "an entry's name");
    const auto extra = reader.take(load<uint16_t>(header, 30), "an entry's extra field");
    reader.take(load<uint16_t>(header, 32), "an entry's comment");
    require<FormatError>(invalid_utf8(entry.name) == std::string_view::npos, "[", where_, "] the name of zip entry ", i,
                         " is not UTF-8.");
    require<FormatError>(apply_zip64_extra(extra, {&entry.size, &entry.stored_size, &entry.header_offset}), "[", where_,
                         "] zip entry ", quoted(entry.name), " lacks its 64-bit sizes.");
    require<NotSupportedError>(!(load<uint16_t>(header, 8) & kEncrypted), "[", where_, "] zip entry ",
                               quoted(entry.name), " is encrypted.");
    const auto method = load<uint16_t>(header, 10);
    require<NotSupportedError>(method == kStored || method == kDeflated, "[", where_, "] zip entry ",
                               quoted(entry.name), " is compressed with method ", method,
                               "; only stored and deflated entries are read.");
    entry.deflated = method == kDeflated;
    entries_.push_back(entry);
  }
  require<FormatError>(reader.remaining() == 0, "[", where_, "] the zip directory holds ", reader.remaining(),
                       " bytes after its last entry.");
}

void ZipArchive::check_claims(const ZipEntry& entry) const {
  check(entry, !entry.name.empty() && entry.name.find('\0') == std::string_view::npos, "has an empty name.");
  check(entry, !is_absolute(entry.name), "has an absolute path.");
  check(entry, !climbs(entry.name), "escapes the archive.");
  check(entry, entry.deflated || entry.size == entry.stored_size, "is stored, but its two sizes differ: ", entry.size,
        " and ", entry.stored_size, " bytes.");
  check(entry,
        !entry.deflated || entry.size <= limits_.harmless_size || entry.size / limits_.max_growth <= entry.stored_size,
        "claims to grow from ", entry.stored_size, " to ", entry.size, " bytes; the limit is ", limits_.max_growth,
        " times. It may be a zip bomb.");
}

void ZipArchive::index_names() {
  by_name_.resize(entries_.size());
  std::iota(by_name_.begin(), by_name_.end(), std::size_t{0});
  std::sort(by_name_.begin(), by_name_.end(),
            [&](std::size_t a, std::size_t b) { return entries_[a].name < entries_[b].name; });
  const auto twice = std::adjacent_find(by_name_.begin(), by_name_.end(), [&](std::size_t a, std::size_t b) {
    return entries_[a].name == entries_[b].name;
  });
  if (twice != by_name_.end())
    fail<FormatError>("[", where_, "] zip entry ", quoted(entries_[*twice].name), " appears twice.");
}

void ZipArchive::check_overlaps(uint64_t directory_offset) {
  std::vector<ZipEntry*> order;
  order.reserve(entries_.size());
  for (ZipEntry& entry : entries_) order.push_back(&entry);
  std::sort(order.begin(), order.end(),
            [](const ZipEntry* a, const ZipEntry* b) { return a->header_offset < b->header_offset; });
  for (std::size_t i = 0; i < order.size(); ++i) {
    ZipEntry& entry = *order[i];
    const bool is_last = i + 1 == order.size();
    entry.end = is_last ? directory_offset : order[i + 1]->header_offset;
    const uint64_t header = kEntryHeader + entry.name.size();
    const bool fits = entry.header_offset <= entry.end && header <= entry.end - entry.header_offset &&
                      entry.stored_size <= entry.end - entry.header_offset - header;
    if (fits) continue;
    if (is_last) {
      fail<FormatError>("[", where_, "] zip entry ", quoted(entry.name), " with ", entry.stored_size, " bytes at ",
                        entry.header_offset, " extends past the start of the directory at ", directory_offset, ".");
    }
    fail<FormatError>("[", where_, "] zip entries ", quoted(entry.name), " and ", quoted(order[i + 1]->name),
                      " overlap.");
  }
}

std::span<const std::byte> ZipArchive::stored_bytes(const ZipEntry& entry) const {
  const std::span<const std::byte> bytes = bytes_.subspan(entry.header_offset, entry.end - entry.header_offset);
  check(entry, load<uint32_t>(bytes, 0) == kEntrySignature, "has no header at byte ", entry.header_offset, ".");
  const std::size_t name_size = load<uint16_t>(bytes, 26), extra_size = load<uint16_t>(bytes, 28);
  const bool same_name =
      name_size == entry.name.size() && std::memcmp(bytes.data() + kEntryHeader, entry.name.data(), name_size) == 0;
  check(entry, same_name, "has a different name in its own header.");
  const std::size_t header_size = kEntryHeader + name_size + extra_size;
  check(entry, header_size <= bytes.size() && entry.stored_size <= bytes.size() - header_size,
        "overlaps the next entry: its own header has ", header_size, " bytes.");
  check(entry, load<uint16_t>(bytes, 8) == (entry.deflated ? kDeflated : kStored),
        "has a different method in its own header.");
  if (!(load<uint16_t>(bytes, 6) & kSizesFollow)) {
    uint64_t stored_size = load<uint32_t>(bytes, 18), size = load<uint32_t>(bytes, 22);
    const bool whole = apply_zip64_extra(bytes.subspan(kEntryHeader + name_size, extra_size), {&size, &stored_size});
    check(entry, whole && size == entry.size && stored_size == entry.stored_size,
          "has different sizes in its own header.");
  }
  return bytes.subspan(header_size, entry.stored_size);
}

}  // namespace easydel

// Zip archives built byte by byte, so that a test can corrupt any of them.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace easydel {

struct ZipPart {
  std::string name;
  std::string stored;            // as stored in the archive
  uint16_t method = 0;           // 8: deflated
  uint32_t size = uint32_t(-1);  // of the content; stored.size() unless it is given
  uint32_t crc32 = 0;
};

struct TestZip {
  std::string bytes;
  std::vector<std::size_t> headers;  // where each entry's own header begins
  std::vector<std::size_t> records;  // where each entry of the directory begins
  std::size_t end = 0;               // where the end record begins

  template <class T>
  TestZip& set(std::size_t at, T value) {
    std::memcpy(bytes.data() + at, &value, sizeof(T));
    return *this;
  }
};

inline TestZip make_zip(const std::vector<ZipPart>& parts) {
  TestZip zip;
  const auto put16 = [&](uint16_t value) { zip.bytes.append(reinterpret_cast<const char*>(&value), 2); };
  const auto put32 = [&](uint32_t value) { zip.bytes.append(reinterpret_cast<const char*>(&value), 4); };
  const auto put_common = [&](const ZipPart& part) {  // flags, method, time, date, checksum, sizes, lengths
    put16(0), put16(part.method), put16(0), put16(0), put32(part.crc32);
    put32(static_cast<uint32_t>(part.stored.size()));
    put32(part.size == uint32_t(-1) ? static_cast<uint32_t>(part.stored.size()) : part.size);
    put16(static_cast<uint16_t>(part.name.size())), put16(0);
  };
  for (const ZipPart& part : parts) {
    zip.headers.push_back(zip.bytes.size());
    put32(0x04034b50), put16(20), put_common(part);
    zip.bytes += part.name + part.stored;
  }
  const std::size_t directory = zip.bytes.size();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    zip.records.push_back(zip.bytes.size());
    put32(0x02014b50), put16(20), put16(20), put_common(parts[i]);
    put16(0), put16(0), put16(0), put32(0), put32(static_cast<uint32_t>(zip.headers[i]));  // comment, disk, attributes
    zip.bytes += parts[i].name;
  }
  zip.end = zip.bytes.size();
  const auto count = static_cast<uint16_t>(parts.size());
  put32(0x06054b50), put16(0), put16(0), put16(count), put16(count);
  put32(static_cast<uint32_t>(zip.end - directory)), put32(static_cast<uint32_t>(directory)), put16(0);
  return zip;
}

}  // namespace easydel

#include "easydel/trainers/trackers/wandb_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>

#include "easydel/core/build_info.h"
#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/trainers/logs/protobuf.h"

namespace easydel {
namespace {

using protobuf::append_little_endian;
using protobuf::bytes_field;
using protobuf::varint_field;

constexpr std::string_view kMagic(":W&B\xe1\xbe\0", 7);
constexpr std::size_t kBlock = 32'768, kHeader = 7;
enum class Part : uint8_t { Full = 1, First, Middle, Last };

// Fields of Record, and of the messages in it.
namespace record_field {
constexpr uint32_t kNumber = 1, kHistory = 2, kSummary = 3, kFiles = 6, kRun = 17, kExit = 18, kHeader = 21;
}
constexpr uint32_t kKey = 1, kNestedKey = 2, kValueJson = 16;  // of an item

// zlib's polynomial, without the mask that LevelDB has.
constexpr std::array<uint32_t, 256> make_crc_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ (value & 1 ? 0xedb88320u : 0);
    table[i] = value;
  }
  return table;
}
constexpr auto kCrcTable = make_crc_table();

uint32_t checksum(Part part, std::string_view data) {
  uint32_t crc = 0xffffffffu;
  const auto add = [&](unsigned char c) { crc = kCrcTable[(crc ^ c) & 0xff] ^ (crc >> 8); };
  add(static_cast<unsigned char>(part));
  for (const char c : data) add(static_cast<unsigned char>(c));
  return crc ^ 0xffffffffu;
}

std::string timestamp(double seconds) {
  const double whole = std::floor(seconds);
  return varint_field(1, static_cast<uint64_t>(whole)) +
         varint_field(2, static_cast<uint64_t>((seconds - whole) * 1e9));
}

std::string items_field(const WandbFile::Items& items) {
  std::string out;
  for (const auto& [key, value] : items)
    out += bytes_field(1, bytes_field(kNestedKey, key) + bytes_field(kValueJson, value.dump()));
  return out;
}

}  // namespace

WandbFile::WandbFile(std::filesystem::path path) : path_(std::move(path)) {
  make_directory(path_.parent_path());
  fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  require<IoError>(fd_ >= 0, path_.string(), " cannot be created: ", errno_text(errno), ".");
}

WandbFile::~WandbFile() {
  if (fd_ >= 0) ::close(fd_);
}

void WandbFile::header() {
  // Whose files look like this, and the least version of wandb that reads them.
  const std::string version = bytes_field(1, concat("easydel.cpp ", EASYDEL_VERSION)) + bytes_field(2, "0.70.0");
  write(std::string(kMagic));
  in_block_ = kMagic.size();
  record(record_field::kHeader, bytes_field(1, version));
}

void WandbFile::run(const Run& run) {
  std::string config;
  for (const auto& [key, value] : run.config.as_object())
    config += bytes_field(1, bytes_field(kKey, key) + bytes_field(kValueJson, value.dump()));
  std::string out = bytes_field(1, run.id);
  if (!run.entity.empty()) out += bytes_field(2, run.entity);
  out += bytes_field(3, run.project) + bytes_field(4, config) + bytes_field(8, run.name) + bytes_field(13, run.host) +
         bytes_field(17, timestamp(run.started));
  record(record_field::kRun, out);
}

void WandbFile::history(int64_t step, const Items& items) {
  record(record_field::kHistory, items_field(items) + bytes_field(2, varint_field(1, static_cast<uint64_t>(step))));
}

void WandbFile::summary(const Items& items) { record(record_field::kSummary, items_field(items)); }

void WandbFile::file(const std::string& path) { record(record_field::kFiles, bytes_field(1, bytes_field(1, path))); }

void WandbFile::exit(int code, int64_t seconds) {
  record(record_field::kExit,
         varint_field(1, static_cast<uint64_t>(code)) + varint_field(2, static_cast<uint64_t>(seconds)));
}

void WandbFile::record(uint32_t field, const std::string& message) {
  append(varint_field(record_field::kNumber, static_cast<uint64_t>(++number_)) + bytes_field(field, message));
}

// One write: a run that is killed leaves at most one incomplete record, at the end.
void WandbFile::append(std::string_view data) {
  std::string out;
  bool is_first = true;
  do {
    if (kBlock - in_block_ < kHeader) {  // no part fits: zeros up to the next block
      out.append(kBlock - in_block_, '\0');
      in_block_ = 0;
    }
    const std::string_view piece = data.substr(0, std::min(data.size(), kBlock - in_block_ - kHeader));
    data.remove_prefix(piece.size());
    const Part part = is_first ? (data.empty() ? Part::Full : Part::First) : (data.empty() ? Part::Last : Part::Middle);
    append_little_endian(out, checksum(part, piece));
    append_little_endian(out, static_cast<uint16_t>(piece.size()));
    out += static_cast<char>(part);
    out += piece;
    in_block_ = (in_block_ + kHeader + piece.size()) % kBlock;
    is_first = false;
  } while (!data.empty());
  write(out);
}

void WandbFile::write(const std::string& bytes) {
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t wrote = ::write(fd_, bytes.data() + done, bytes.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    require<IoError>(wrote > 0, path_.string(), " cannot be written: ", errno_text(errno), ".");
    done += static_cast<std::size_t>(wrote);
  }
}

}  // namespace easydel

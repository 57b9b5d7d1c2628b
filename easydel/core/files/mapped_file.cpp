#include "easydel/core/files/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <thread>
#include <utility>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "easydel/core/error.h"
#include "easydel/core/files/descriptor.h"

namespace easydel {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kLargePage = std::size_t{2} << 20;
constexpr std::size_t kWindow = std::size_t{32} << 20;

// For copies larger than the cache: does not read the destination lines before overwriting them, as memcpy does.
void stream_copy(std::byte* to, const std::byte* from, std::size_t size) {
#ifdef __SSE2__
  const std::size_t head = std::min(size, static_cast<std::size_t>(-reinterpret_cast<std::uintptr_t>(to) % 64));
  std::memcpy(to, from, head);
  std::size_t at = head;
  for (; at + 64 <= size; at += 64) {
    const auto* in = reinterpret_cast<const __m128i*>(from + at);
    auto* out = reinterpret_cast<__m128i*>(to + at);
    const __m128i a = _mm_loadu_si128(in), b = _mm_loadu_si128(in + 1);
    const __m128i c = _mm_loadu_si128(in + 2), d = _mm_loadu_si128(in + 3);
    _mm_stream_si128(out, a);
    _mm_stream_si128(out + 1, b);
    _mm_stream_si128(out + 2, c);
    _mm_stream_si128(out + 3, d);
  }
  _mm_sfence();
  std::memcpy(to + at, from + at, size - at);
#else
  std::memcpy(to, from, size);
#endif
}

}  // namespace

FileReader::FileReader(FileReader&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}

FileReader::~FileReader() {
  if (fd_ >= 0) ::close(fd_);
}

void FileReader::read(std::size_t offset, std::span<std::byte> out) const {
  // read() itself copies with one instruction, which is slow when source and destination are aligned differently
  // within a cache line, and the data of a safetensors file has arbitrary alignment.
  while (out.size() >= kWindow / 32) {
    const std::size_t count = std::min(out.size(), kWindow);
    if (!copy_window(offset, out.first(count))) break;
    offset += count;
    out = out.subspan(count);
  }
  while (!out.empty()) {
    const ssize_t got = ::pread(fd_, out.data(), out.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_errno("cannot be read", path_, errno);
    require<IoError>(got > 0, "[", path_.string(), "] ends at byte ", offset, ", before the last requested byte, ",
                     offset + out.size() - 1, ". It was truncated while being read.");
    offset += static_cast<std::size_t>(got);
    out = out.subspan(static_cast<std::size_t>(got));
  }
}

// False when the range is outside the file, or the map fails.
bool FileReader::copy_window(std::size_t offset, std::span<std::byte> out) const {
  struct stat info{};
  if (::fstat(fd_, &info) != 0 || static_cast<std::size_t>(info.st_size) < offset + out.size()) return false;
  const std::size_t start = offset / kLargePage * kLargePage, size = offset - start + out.size();
  void* window = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd_, static_cast<off_t>(start));
  if (window == MAP_FAILED) return false;
  stream_copy(out.data(), static_cast<const std::byte*>(window) + (offset - start), out.size());
  ::munmap(window, size);
  return true;
}

bool FileReader::is_cached(std::size_t offset) const {
#ifdef __linux__
  constexpr long kCachestat = 451;  // the same on every architecture; not yet in the C library
  const uint64_t range[2] = {offset, 1};
  uint64_t pages[5] = {};  // cached, dirty and so on
  return ::syscall(kCachestat, fd_, range, pages, 0) == 0 && pages[0] > 0;
#else
  return false;
#endif
}

std::shared_ptr<const MappedFile> MappedFile::open(const fs::path& path, MapAccess access) {
  struct stat info{};
  const Descriptor fd(open_for_reading(path, info));
  std::shared_ptr<MappedFile> file(new MappedFile());
  file->path_ = path;
  file->access_ = access;
  file->size_ = static_cast<std::size_t>(info.st_size);
  file->device_ = info.st_dev;
  file->inode_ = info.st_ino;
  if (file->size_ == 0) return file;
  const int protection = access == MapAccess::CopyOnWrite ? PROT_READ | PROT_WRITE : PROT_READ;
  void* data = ::mmap(nullptr, file->size_, protection, MAP_PRIVATE | MAP_NORESERVE, fd, 0);
  if (data == MAP_FAILED) fail_errno("cannot be mapped into memory", path, errno);
  file->data_ = static_cast<std::byte*>(data);
  return file;
}

std::span<std::byte> MappedFile::writable_bytes() const {
  assert(access_ == MapAccess::CopyOnWrite);
  return {data_, size_};
}

std::optional<FileReader> MappedFile::reader() const {
  FileReader reader(path_, ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info{};
  if (reader.fd_ < 0 || ::fstat(reader.fd_, &info) != 0) return std::nullopt;
  if (info.st_dev != device_ || info.st_ino != inode_) return std::nullopt;
  return reader;
}

bool MappedFile::contains(const void* address) const {
  const auto begin = reinterpret_cast<std::uintptr_t>(data_), place = reinterpret_cast<std::uintptr_t>(address);
  return place >= begin && place - begin < size_;
}

bool MappedFile::is_cached() const {
  constexpr std::size_t kPlaces = 32;
  const std::optional<FileReader> reader = this->reader();
  for (std::size_t i = 0; i < kPlaces; ++i) {
    if (size_ > 0 && (!reader || !reader->is_cached((size_ - 1) / (kPlaces - 1) * i))) return false;
  }
  return true;
}

void MappedFile::release() const {
  if (data_) ::madvise(data_, size_, MADV_DONTNEED);
}

MappedFile::~MappedFile() {
  if (data_) ::munmap(data_, size_);
}

void touch_pages(std::span<const std::byte> mapped) {
  static const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const auto look_at = [&](std::size_t place) { *static_cast<const volatile std::byte*>(&mapped[place]); };
  for (std::size_t place = 0; place < mapped.size(); place += page) look_at(place);
  if (!mapped.empty()) look_at(mapped.size() - 1);
}

void prefault_pages(std::vector<std::weak_ptr<const MappedFile>> files) {
#ifdef MADV_POPULATE_READ
  const auto enter = [files = std::move(files)] {
    constexpr std::size_t kStep = std::size_t{16} << 20;  // other threads that map memory wait until a step is done
    for (auto kept = files.rbegin(); kept != files.rend(); ++kept) {
      for (std::size_t done = 0;;) {
        const std::shared_ptr<const MappedFile> file = kept->lock();
        if (!file || done == file->size()) break;
        const std::size_t rest = file->size() - done, begin = (rest - 1) / kStep * kStep;
        if (::madvise(file->data_ + begin, rest - begin, MADV_POPULATE_READ) != 0) return;
        done = file->size() - begin;
      }
    }
  };
  try {
    std::thread(enter).detach();
  } catch (const std::system_error&) {  // no thread available; this is only an optimization
  }
#endif
}

}  // namespace easydel

// Memory-mapped files, and reads that bypass the map. Every failure is an IoError that names the path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace easydel {

// Positional reads of one file, from any number of threads.
class FileReader {
 public:
  ~FileReader();
  FileReader(FileReader&& other) noexcept;
  FileReader& operator=(FileReader&&) = delete;

  void read(std::size_t offset, std::span<std::byte> out) const;  // IoError when the file ends before `out` is full
  bool is_cached(std::size_t offset) const;  // a read here does not wait for the disk; false if unknown

 private:
  friend class MappedFile;
  bool copy_window(std::size_t offset, std::span<std::byte> out) const;
  FileReader(std::filesystem::path path, int fd) : path_(std::move(path)), fd_(fd) {}
  std::filesystem::path path_;
  int fd_ = -1;
};

// CopyOnWrite makes the map writable: pages that are written become private to this process, and the file keeps its
// content. Until then they do not count against any memory limit.
enum class MapAccess { ReadOnly, CopyOnWrite };

// A map of an entire file; shared by whoever hands out views into it.
class MappedFile : public std::enable_shared_from_this<MappedFile> {
 public:
  static std::shared_ptr<const MappedFile> open(const std::filesystem::path& path,
                                                MapAccess access = MapAccess::ReadOnly);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  std::span<std::byte> writable_bytes() const;  // only for a map opened as CopyOnWrite
  std::size_t size() const { return size_; }

  // For reads that bypass the map, and see the file's content even where the map was written to. Null when the path no
  // longer refers to this file.
  std::optional<FileReader> reader() const;
  bool contains(const void* address) const;
  bool is_cached() const;  // estimated from a few samples; false if unknown
  // Releases the memory of every touched page, and discards what was written. The map stays valid.
  void release() const;

 private:
  friend void prefault_pages(std::vector<std::weak_ptr<const MappedFile>> files);
  MappedFile() = default;
  std::filesystem::path path_;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  uint64_t device_ = 0, inode_ = 0;  // which file it is, whatever its path may name later
  MapAccess access_ = MapAccess::ReadOnly;
};

// Reads a part of a mapped file into memory now, from the first page to the last. The kernel's readahead detects the
// sequential access: nothing is faster, MADV_POPULATE_READ included.
void touch_pages(std::span<const std::byte> mapped);

// Maps the cached pages of mapped files into the address space, on a separate thread and from last to first: a reader
// that goes from first to last meets it halfway. Stops at a file that nobody else holds any more.
void prefault_pages(std::vector<std::weak_ptr<const MappedFile>> files);

}  // namespace easydel

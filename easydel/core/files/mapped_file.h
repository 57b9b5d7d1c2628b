// Files in the address space, and reads that go past it. Every failure is an IoError that names the path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace easydel {

// Reads of one file at any place, from any number of threads.
class FileReader {
 public:
  ~FileReader();
  FileReader(FileReader&& other) noexcept;
  FileReader& operator=(FileReader&&) = delete;

  void read(std::size_t offset, std::span<std::byte> out) const;  // IoError when the file ends before `out` is full
  bool is_cached(std::size_t offset) const;  // a read here does not wait for the disk; false where nobody knows

 private:
  friend class MappedFile;
  bool copy_window(std::size_t offset, std::span<std::byte> out) const;
  FileReader(std::filesystem::path path, int fd) : path_(std::move(path)), fd_(fd) {}
  std::filesystem::path path_;
  int fd_ = -1;
};

// CopyOnWrite lets the map be written to: the pages that are touched become this process's own, and the file keeps
// its content. They count against no limit on memory before that.
enum class MapAccess { ReadOnly, CopyOnWrite };

// A map of a whole file; shared by whoever hands out views into it.
class MappedFile : public std::enable_shared_from_this<MappedFile> {
 public:
  static std::shared_ptr<const MappedFile> open(const std::filesystem::path& path,
                                                MapAccess access = MapAccess::ReadOnly);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  std::span<std::byte> writable_bytes() const;  // only of a map that was opened as CopyOnWrite
  std::size_t size() const { return size_; }

  // For reads that go past the map, and find what the file holds even where the map was written to. Nothing when the
  // path no longer leads to this file.
  std::optional<FileReader> reader() const;
  bool contains(const void* address) const;
  bool is_cached() const;  // as far as a few places tell; false where the system does not say
  // Gives back the memory of every page that was touched, and forgets what was written. The map stays whole.
  void release() const;

 private:
  friend void enter_pages_ahead(std::vector<std::weak_ptr<const MappedFile>> files);
  MappedFile() = default;
  std::filesystem::path path_;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  uint64_t device_ = 0, inode_ = 0;  // which file it is, whatever its path may name later
  MapAccess access_ = MapAccess::ReadOnly;
};

// Brings a part of a mapped file into memory now, from the first page to the last. The system sees what is wanted next
// and has it read meanwhile: nothing is faster, MADV_POPULATE_READ included.
void touch_pages(std::span<const std::byte> mapped);

// Enters the pages of mapped files that are in the cache into the address space, on a thread of its own and from the
// last to the first: who looks at them from the first on finds the rest done. It ends where nobody else keeps a file.
void enter_pages_ahead(std::vector<std::weak_ptr<const MappedFile>> files);

}  // namespace easydel

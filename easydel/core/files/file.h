// Files done carefully: whole reads, atomic writes, directories. Every failure is an IoError that names the path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace easydel {

std::string read_file(const std::filesystem::path& path);

// Written to a temporary file beside `path`, synced, then renamed: readers see the old file or the new one.
void write_file_atomically(const std::filesystem::path& path, std::string_view content);

// The same for content that comes in pieces. Without commit() the destructor removes the temporary file.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* data, std::size_t size);  // IoError names the path and says how much was written
  int64_t written() const { return written_; }
  void commit();

 private:
  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int fd_ = -1;
  int64_t written_ = 0;
};

void sync_directory(const std::filesystem::path& directory);

// With its parents; on disk when the call returns.
void make_directory(const std::filesystem::path& directory);

// The names of its entries, sorted.
std::vector<std::string> list_directory(const std::filesystem::path& directory);

void remove_file(const std::filesystem::path& path);  // it may be gone already

}  // namespace easydel

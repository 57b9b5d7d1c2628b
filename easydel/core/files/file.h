// Safe file operations: full reads, atomic writes, directories. Every failure is an IoError that names the path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace easydel {

std::string read_file(const std::filesystem::path& path);

// Writes to a temporary file next to `path`, syncs, then renames: readers see either the old file or the new one.
void write_file_atomically(const std::filesystem::path& path, std::string_view content);

// The same for content written in chunks. Without commit() the destructor removes the temporary file.
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

// Creates parents as needed; synced to disk when the call returns.
void make_directory(const std::filesystem::path& directory);

// The names of its entries, sorted.
std::vector<std::string> list_directory(const std::filesystem::path& directory);

void remove_file(const std::filesystem::path& path);  // no error if it does not exist

}  // namespace easydel

#include "easydel/core/files/mapped_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "tests/support/resident_bytes.h"
#include "tests/support/temporary_directory.h"

namespace easydel {
namespace {

using testing::ThrowsMessage;

TEST(MappedFile, ShowsTheBytesOfAFileEvenAfterItIsRemoved) {
  const TemporaryDirectory directory;
  write_file_atomically(directory / "file", "hello");
  const auto map = MappedFile::open(directory / "file");
  std::filesystem::remove(directory / "file");
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(map->bytes().data()), map->size()), "hello");
}

TEST(MappedFile, KeepsWritesToACopyOnWriteMapFromTheFile) {
  const TemporaryDirectory directory;
  write_file_atomically(directory / "file", "hello");
  const auto map = MappedFile::open(directory / "file", MapAccess::CopyOnWrite);
  map->writable_bytes()[0] = std::byte{'j'};
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(map->bytes().data()), map->size()), "jello");
  EXPECT_EQ(read_file(directory / "file"), "hello");
}

TEST(MappedFile, AcceptsAnEmptyFile) {
  const TemporaryDirectory directory;
  write_file_atomically(directory / "empty", "");
  const auto map = MappedFile::open(directory / "empty");
  EXPECT_EQ(map->size(), 0);
  EXPECT_TRUE(map->is_cached());
  EXPECT_FALSE(map->contains(nullptr));
  map->release();
  touch_pages(map->bytes());
}

TEST(MappedFile, KnowsItsAddresses) {
  const TemporaryDirectory directory;
  write_file_atomically(directory / "file", "hello");
  const auto map = MappedFile::open(directory / "file");
  EXPECT_TRUE(map->contains(map->bytes().data()));
  EXPECT_TRUE(map->contains(map->bytes().data() + 4));
  EXPECT_FALSE(map->contains(map->bytes().data() + 5));
  EXPECT_FALSE(map->contains(map->bytes().data() - 1));
}

TEST(MappedFile, ReleasesMemoryAndReadsItAgain) {
  const TemporaryDirectory directory;
  write_file_atomically(directory / "file", std::string(3 << 20, 'x'));
  const auto map = MappedFile::open(directory / "file", MapAccess::CopyOnWrite);
  touch_pages(map->bytes());
  EXPECT_GE(resident_bytes(directory / "file"), 3 << 20);
  map->writable_bytes()[7] = std::byte{'y'};
  map->release();
  EXPECT_EQ(resident_bytes(directory / "file"), 0);
  EXPECT_EQ(map->bytes()[7], std::byte{'x'});
}

TEST(MappedFile, PrefaultsAllPagesOfAllFiles) {
#ifdef MADV_POPULATE_READ
  const TemporaryDirectory directory;
  std::vector<std::shared_ptr<const MappedFile>> files;
  for (const auto& [name, size] : {std::pair("long", 33 << 20), std::pair("empty", 0), std::pair("short", 5000)}) {
    write_file_atomically(directory / name, std::string(size, 'x'));
    files.push_back(MappedFile::open(directory / name, MapAccess::CopyOnWrite));
  }
  if (::madvise(files[2]->writable_bytes().data(), 1, MADV_POPULATE_READ) != 0) GTEST_SKIP() << "an old kernel";
  files[2]->release();
  prefault_pages({files.begin(), files.end()});
  // It runs on its own thread; the test's time limit covers a hang.
  while (resident_bytes(directory / "long") < (33 << 20) || resident_bytes(directory / "short") < 5000)
    std::this_thread::yield();
  EXPECT_EQ(files[0]->bytes().back(), std::byte{'x'});
#else
  GTEST_SKIP() << "this system has no such call";
#endif
}

TEST(MappedFile, MayBeDestroyedWhilePagesAreEntered) {
  const TemporaryDirectory directory;
  write_file_atomically(directory / "file", std::string(64 << 20, 'x'));
  std::weak_ptr<const MappedFile> file;
  {
    const auto map = MappedFile::open(directory / "file");
    file = map;
    prefault_pages({map});
  }
  // The thread may hold the last reference, and then still has to unmap.
  while (file.lock() || resident_bytes(directory / "file") > 0) std::this_thread::yield();
  EXPECT_EQ(resident_bytes(directory / "file"), 0);
}

TEST(MappedFile, ReadsAtAnyOffsetBypassingTheMap) {
  const TemporaryDirectory directory;
  write_file_atomically(directory / "file", "hello world");
  const auto map = MappedFile::open(directory / "file", MapAccess::CopyOnWrite);
  map->writable_bytes()[6] = std::byte{'W'};
  const auto reader = map->reader();
  ASSERT_TRUE(reader);
  std::string text(5, ' ');
  reader->read(6, std::as_writable_bytes(std::span(text)));
  EXPECT_EQ(text, "world");
  EXPECT_THAT([&] { reader->read(8, std::as_writable_bytes(std::span(text))); },
              ThrowsMessage<IoError>(
                  "[" + (directory / "file").string() +
                  "] ends at byte 11, before the last requested byte, 12. It was truncated while being read."));
}

TEST(MappedFile, ReadsMoreThanOneWindowOfTheFile) {
  const TemporaryDirectory directory;
  std::string content(40 << 20, ' ');
  for (std::size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>(i * 2654435761u >> 13);
  write_file_atomically(directory / "file", content);
  const auto reader = MappedFile::open(directory / "file")->reader();
  ASSERT_TRUE(reader);
  std::vector<std::byte> out(content.size());
  for (const std::size_t offset : {0, 5, 4096, (3 << 20) + 7}) {
    for (const std::size_t into : {0, 1, 17}) {
      const std::size_t size = content.size() - offset - into;
      std::fill(out.begin(), out.end(), std::byte{0});
      reader->read(offset, std::span(out).subspan(into, size));
      EXPECT_EQ(std::memcmp(out.data() + into, content.data() + offset, size), 0) << offset << " to " << into;
      EXPECT_EQ(out[into + size - 1], static_cast<std::byte>(content[offset + size - 1]));
      EXPECT_TRUE(into + size == out.size() || out[into + size] == std::byte{0});
    }
  }
}

TEST(MappedFile, HasNoReaderAfterTheFileWasReplaced) {
  const TemporaryDirectory directory;
  write_file_atomically(directory / "file", "old");
  const auto map = MappedFile::open(directory / "file");
  write_file_atomically(directory / "file", "new");
  EXPECT_FALSE(map->reader());
  std::filesystem::remove(directory / "file");
  EXPECT_FALSE(map->reader());
}

TEST(MappedFile, KnowsWhatIsInThePageCache) {
  const TemporaryDirectory directory;
  write_file_atomically(directory / "file", std::string(4 << 20, 'x'));
  const auto map = MappedFile::open(directory / "file");
  const auto in_core = [&] {
    std::vector<unsigned char> pages((map->size() + 4095) / 4096);
    ::mincore(const_cast<std::byte*>(map->bytes().data()), map->size(), pages.data());
    return std::all_of(pages.begin(), pages.end(), [](unsigned char page) { return (page & 1) != 0; });
  };
  touch_pages(map->bytes());
  if (!map->is_cached()) GTEST_SKIP() << "this system does not say";
  EXPECT_TRUE(in_core());
  map->release();  // what is mapped stays in the cache
  const int fd = ::open((directory / "file").c_str(), O_RDONLY);
  ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  ::close(fd);
  EXPECT_EQ(map->is_cached(), in_core());  // a file in memory, as on tmpfs, is never dropped
}

}  // namespace
}  // namespace easydel

#include "easydel/core/files/file.h"

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <fstream>

#include "easydel/core/error.h"
#include "easydel/core/files/mapped_file.h"
#include "tests/support/temporary_directory.h"

namespace easydel {
namespace {

using testing::ThrowsMessage;

std::size_t entries_in(const std::filesystem::path& directory) {
  return std::distance(std::filesystem::directory_iterator(directory), std::filesystem::directory_iterator());
}

TEST(AtomicFile, ReplacesAFileOnCommitAndNotBefore) {
  const TemporaryDirectory directory;
  const auto path = directory / "file";
  write_file_atomically(path, "old");
  {
    AtomicFile file(path);
    file.write("new", 3);
    EXPECT_EQ(read_file(path), "old");
  }
  EXPECT_EQ(read_file(path), "old");
  AtomicFile file(path);
  file.write("new", 3);
  file.commit();
  EXPECT_EQ(read_file(path), "new");
  EXPECT_EQ(entries_in(directory.path()), 1);
}

TEST(AtomicFile, LeavesTheOldFileWhenTheDiskIsFull) {
  const TemporaryDirectory directory;
  const auto path = directory / "file";
  write_file_atomically(path, "old");
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  rlimit limit = before;
  limit.rlim_cur = 4096;
  setrlimit(RLIMIT_FSIZE, &limit);
  std::string message;
  try {
    write_file_atomically(path, std::string(10000, 'x'));
  } catch (const IoError& error) {
    message = error.what();
  }
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(message, "[" + path.string() +
                         "] cannot be written after 4096 bytes: File too large. The previous content is untouched.");
  EXPECT_EQ(read_file(path), "old");
  EXPECT_EQ(entries_in(directory.path()), 1);
}

TEST(AtomicFile, NamesAMissingDirectory) {
  EXPECT_THAT([] { AtomicFile("/no/such/directory/file"); },
              ThrowsMessage<IoError>("[/no/such/directory/file] cannot be written: No such file or directory."));
}

TEST(ReadFile, NamesWhatCannotBeRead) {
  EXPECT_THAT([] { read_file("/no/such/file"); },
              ThrowsMessage<IoError>("[/no/such/file] cannot be opened: No such file or directory."));
  EXPECT_THAT([] { read_file("/"); }, ThrowsMessage<IoError>("[/] cannot be read: Is a directory."));
  EXPECT_THAT([] { read_file("/dev/null"); },
              ThrowsMessage<IoError>("[/dev/null] must be a regular file; it is a device."));
}

TEST(ReadFile, RejectsAnImplausibleSize) {
  const TemporaryDirectory directory;
  const auto path = directory / "holes";
  write_file_atomically(path, "");
  std::filesystem::resize_file(path, std::uintmax_t{1} << 40);
  EXPECT_THAT([&] { read_file(path); }, ThrowsMessage<IoError>("[" + path.string() +
                                                               "] has 1099511627776 bytes; the limit is "
                                                               "1073741824."));
}

TEST(ReadFile, DoesNotWaitForAPipe) {
  const TemporaryDirectory directory;
  const std::string path = (directory / "pipe").string();
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_THAT([&] { read_file(path); },
              ThrowsMessage<IoError>("[" + path + "] must be a regular file; it is a named pipe."));
  EXPECT_THAT([&] { MappedFile::open(path); },
              ThrowsMessage<IoError>("[" + path + "] must be a regular file; it is a named pipe."));
}

TEST(ReadFile, ReadsFilesOfUnknownSize) { EXPECT_FALSE(read_file("/proc/self/status").empty()); }

TEST(Directories, AreCreatedWithTheirParentsAndListedByName) {
  const TemporaryDirectory directory;
  make_directory(directory / "a/b");
  make_directory(directory / "a/b");
  write_file_atomically(directory / "a/z", "");
  EXPECT_EQ(list_directory(directory / "a"), (std::vector<std::string>{"b", "z"}));
  remove_file(directory / "a/z");
  remove_file(directory / "a/z");
  EXPECT_EQ(list_directory(directory / "a"), std::vector<std::string>{"b"});
}

TEST(Directories, NameThePathThatFails) {
  const TemporaryDirectory directory;
  write_file_atomically(directory / "file", "");
  EXPECT_THAT([&] { make_directory(directory / "file/below"); },
              ThrowsMessage<IoError>("[" + (directory / "file").string() + "] cannot be created: File exists."));
  EXPECT_THAT(
      [&] { list_directory(directory / "none"); },
      ThrowsMessage<IoError>("[" + (directory / "none").string() + "] cannot be listed: No such file or directory."));
  EXPECT_THAT([&] { remove_file(directory.path()); },
              ThrowsMessage<IoError>("[" + directory.path().string() + "] cannot be removed: Is a directory."));
}

}  // namespace
}  // namespace easydel

#include "easydel/io/hub/hub_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "easydel/core/files/file.h"
#include "easydel/io/hub/file_lock.h"
#include "tests/support/hub_fixture.h"

namespace easydel {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::ThrowsMessage;

const std::string kCommit(40, 'c');
const std::string kSha1(40, 'a');
const std::string kSha256(64, 'b');

class HubCacheTest : public testing::Test {
 protected:
  TemporaryDirectory directory_;
  HubCache cache_{directory_.path(), make_hub_repo("org/x", "model", "main")};
};

TEST_F(HubCacheTest, ALinkIsRelativeAndPointsToTheBlob) {
  cache_.prepare(kCommit);
  write_file_atomically(cache_.blob(kSha1), "hello");
  cache_.link(kCommit, {.path = "a/b/c.txt", .size = 5, .blob_id = kSha1}, true);
  const fs::path entry = cache_.snapshot(kCommit) / "a/b/c.txt";
  EXPECT_EQ(fs::read_symlink(entry), "../../../../blobs/" + kSha1);
  EXPECT_EQ(read_file(entry), "hello");
  EXPECT_TRUE(cache_.has(kCommit, {.path = "a/b/c.txt", .size = 5, .blob_id = kSha1}));
  EXPECT_FALSE(cache_.has(kCommit, {.path = "a/b/c.txt", .size = 6, .blob_id = kSha1}));
}

TEST_F(HubCacheTest, ALinkReplacesADanglingOne) {
  cache_.prepare(kCommit);
  write_file_atomically(cache_.blob(kSha1), "hello");
  fs::create_symlink("../../blobs/gone", cache_.snapshot(kCommit) / "c.txt");
  cache_.link(kCommit, {.path = "c.txt", .size = 5, .blob_id = kSha1}, true);
  EXPECT_EQ(read_file(cache_.snapshot(kCommit) / "c.txt"), "hello");
  EXPECT_EQ(std::distance(fs::directory_iterator(cache_.folder() / "blobs"), fs::directory_iterator()), 1);
}

TEST_F(HubCacheTest, WithoutLinksTheSnapshotHasACopy) {
  cache_.prepare(kCommit);
  write_file_atomically(cache_.blob(kSha1), "hello");
  cache_.link(kCommit, {.path = "c.txt", .size = 5, .blob_id = kSha1}, false);
  EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(cache_.snapshot(kCommit) / "c.txt")));
  EXPECT_EQ(read_file(cache_.snapshot(kCommit) / "c.txt"), "hello");
}

TEST_F(HubCacheTest, ARefHoldsTheCommitAndNothingElse) {
  EXPECT_EQ(cache_.find_commit("main"), std::nullopt);
  EXPECT_EQ(cache_.find_commit(kCommit), kCommit);
  cache_.write_ref("refs/pr/1", kCommit);
  EXPECT_EQ(read_file(cache_.folder() / "refs/refs/pr/1"), kCommit);
  EXPECT_EQ(cache_.find_commit("refs/pr/1"), kCommit);
  write_file_atomically(cache_.folder() / "refs/bad", "../../../etc");
  EXPECT_EQ(cache_.find_commit("bad"), std::nullopt);
  cache_.write_ref(kCommit, kCommit);
  EXPECT_FALSE(fs::exists(cache_.folder() / "refs" / kCommit));
}

TEST_F(HubCacheTest, ATreeRoundTrips) {
  EXPECT_EQ(cache_.read_tree(kCommit), std::nullopt);
  cache_.write_tree(kCommit,
                    {{.path = "a", .size = 3, .blob_id = kSha1},
                     {.path = "d/b", .size = 1'000, .blob_id = kSha1, .lfs_sha256 = kSha256, .xet_hash = kSha256}});
  const auto files = cache_.read_tree(kCommit);
  ASSERT_TRUE(files);
  ASSERT_EQ(files->size(), 2U);
  EXPECT_EQ(files->at(0).etag(), kSha1);
  EXPECT_EQ(files->at(1).path, "d/b");
  EXPECT_EQ(files->at(1).etag(), kSha256);
  EXPECT_EQ(files->at(1).size, 1'000);
  EXPECT_EQ(files->at(1).xet_hash, kSha256);
}

TEST_F(HubCacheTest, ATreeThatIsDamagedOrHostileIsIgnoredWithAWarning) {
  const fs::path path = cache_.folder() / "trees" / (kCommit + ".json");
  fs::create_directories(path.parent_path());
  const auto entry = [&](const std::string& name, const std::string& id) {
    return R"({"format_version": 1, "files": {")" + name + R"(": {"size": 1, "blob_id": ")" + id + "\"}}}";
  };
  const CapturedLog log;
  for (const std::string& text :
       {std::string("{"), std::string("[]"), entry("../../x", kSha1), entry("x", "../../y")}) {
    write_file_atomically(path, text);
    EXPECT_EQ(cache_.read_tree(kCommit), std::nullopt) << text;
  }
  EXPECT_EQ(log.warnings().size(), 4U);
  write_file_atomically(path, R"({"format_version": 2, "files": {}})");  // a later version's: no reason to warn
  EXPECT_EQ(cache_.read_tree(kCommit), std::nullopt);
  EXPECT_EQ(log.warnings().size(), 4U);
}

TEST_F(HubCacheTest, ListsWhatASnapshotHolds) {
  cache_.prepare(kCommit);
  write_file_atomically(cache_.blob(kSha1), "hello");
  cache_.link(kCommit, {.path = "d/c.txt", .size = 5, .blob_id = kSha1}, true);
  fs::create_symlink("../../blobs/gone", cache_.snapshot(kCommit) / "broken.txt");
  const auto files = cache_.files_in_snapshot(kCommit);
  ASSERT_EQ(files.size(), 1U);
  EXPECT_EQ(files[0].path, "d/c.txt");
  EXPECT_EQ(files[0].size, 5);
}

TEST_F(HubCacheTest, ReportsThatItCannotBeCreated) {
  write_file_atomically(directory_ / "models--org--x", "a file where the folder should be");
  EXPECT_THAT([&] { cache_.prepare(kCommit); },
              ThrowsMessage<IoError>(testing::AllOf(
                  testing::StartsWith("[hub] cannot create " + (cache_.folder() / "blobs").string() + ": "),
                  testing::EndsWith(". Set HF_HUB_CACHE to a writable directory."))));
}

TEST(FileLockTest, IsExclusiveBetweenThreadsAndFreedAtTheEnd) {
  const TemporaryDirectory directory;
  std::atomic<int> inside = 0, most = 0;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      const FileLock lock(directory / "x.lock", std::chrono::seconds(20));
      most = std::max<int>(most, ++inside);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      --inside;
    });
  }
  threads.clear();
  EXPECT_EQ(most, 1);
  struct stat info{};
  ASSERT_EQ(::stat((directory / "x.lock").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0664U);
}

TEST(FileLockTest, TimesOutAndNamesTheFile) {
  const TemporaryDirectory directory;
  const int holder = ::open((directory / "x.lock").c_str(), O_RDWR | O_CREAT, 0664);
  ASSERT_EQ(::flock(holder, LOCK_EX), 0);
  EXPECT_THAT([&] { FileLock(directory / "x.lock", std::chrono::seconds(0)); },
              ThrowsMessage<IoError>("[lock] another process has held " + (directory / "x.lock").string() +
                                     " for more than 0 s. Stop it, or wait for it."));
  ::close(holder);
  EXPECT_NO_THROW(FileLock(directory / "x.lock", std::chrono::seconds(0)));
}

TEST(FileLockTest, NamesAPathWhereNoLockCanBeCreated) {
  EXPECT_THAT([] { FileLock("/nowhere/x.lock", std::chrono::seconds(0)); },
              ThrowsMessage<IoError>("[lock] cannot open /nowhere/x.lock: No such file or directory."));
}

}  // namespace
}  // namespace easydel

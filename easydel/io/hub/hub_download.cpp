#include "easydel/io/hub/hub_download.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <exception>
#include <memory>
#include <variant>

#include "easydel/core/files/file.h"
#include "easydel/core/log.h"
#include "easydel/core/progress/progress.h"
#include "easydel/io/hub/file_lock.h"
#include "easydel/io/hub/hash.h"

namespace easydel {

namespace fs = std::filesystem;

namespace {

// The hash by which the hub identifies the file: SHA-256 in LFS, git's own otherwise.
class ContentHash {
 public:
  explicit ContentHash(const HubFile& file) {
    if (file.lfs_sha256.empty()) {
      auto& hash = hash_.emplace<Sha1>();
      hash.update(concat("blob ", file.size));
      hash.update("\0", 1);
    }
  }
  void update(const void* data, std::size_t size) {
    std::visit([&](auto& hash) { hash.update(data, size); }, hash_);
  }
  std::string hex() {
    return std::visit([](auto& hash) { return hash.hex(); }, hash_);
  }

 private:
  std::variant<Sha256, Sha1> hash_;
};

// The bytes downloaded so far. Each is written at its own offset, so that even two writers on a file system without
// locks would write the same file.
class PartialBlob {
 public:
  PartialBlob(fs::path path, const HubFile& file) : path_(std::move(path)), file_(file), hash_(file) { open(); }
  ~PartialBlob() {
    if (fd_ >= 0) ::close(fd_);
  }
  PartialBlob(const PartialBlob&) = delete;
  PartialBlob& operator=(const PartialBlob&) = delete;

  int64_t size() const { return size_; }
  bool complete() const { return size_ == file_.size; }
  bool resumed() const { return resumed_; }
  std::string hex() { return ContentHash(hash_).hex(); }

  void append(std::string_view piece) {
    const char* data = piece.data();
    std::size_t left = piece.size();
    while (left > 0) {
      const ssize_t put = ::pwrite(fd_, data, left, size_);
      if (put < 0 && errno == EINTR) continue;
      require<IoError>(put >= 0, "[hub] cannot write ", path_.string(), " after ", size_, " bytes: ", errno_text(errno),
                       ". The partial file is kept, and the next attempt resumes from it.");
      hash_.update(data, static_cast<std::size_t>(put));
      data += put;
      left -= static_cast<std::size_t>(put);
      size_ += put;
    }
  }

  // Starts over in a new file: another process may still have the old one open.
  void discard() {
    ::close(fd_);
    ::unlink(path_.c_str());
    hash_ = ContentHash(file_);
    open();
  }

  void commit(const fs::path& to) {
    require<IoError>(::fsync(fd_) == 0, "[hub] cannot sync ", path_.string(), ": ", errno_text(errno), ".");
    std::error_code error;
    fs::rename(path_, to, error);
    require<IoError>(!error || fs::exists(to), "[hub] cannot create ", to.string(), ": ", error.message(), ".");
    sync_directory(to.parent_path());
  }

 private:
  void open() {
    size_ = 0;
    fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    require<IoError>(fd_ >= 0, "[hub] cannot open ", path_.string(), ": ", errno_text(errno), ".");
    const std::unique_ptr<char[]> buffer(new char[1 << 20]);
    ssize_t got = 0;
    while ((got = ::pread(fd_, buffer.get(), 1 << 20, size_)) > 0) {
      hash_.update(buffer.get(), static_cast<std::size_t>(got));
      size_ += got;
    }
    require<IoError>(got == 0, "[hub] cannot read ", path_.string(), ": ", errno_text(errno), ".");
    resumed_ = size_ > 0;
    if (size_ > file_.size) discard();
  }

  fs::path path_;
  const HubFile& file_;
  ContentHash hash_;
  int fd_ = -1;
  int64_t size_ = 0;
  bool resumed_ = false;
};

// The size of the full file according to a response's headers, or -1 if unknown.
int64_t announced_size(const HttpResponse& response) {
  const std::string range = response.header("Content-Range");  // "bytes 100-199/200"
  const std::string text =
      response.status == 206 ? range.substr(range.find('/') + 1) : response.header("Content-Length");
  int64_t size = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
  return error == std::errc() && end == text.data() + text.size() ? size : -1;
}

class Fetch {
 public:
  Fetch(HubApi& api, const HubDownload& download, PartialBlob& blob, Progress& progress)
      : api_(api), download_(download), blob_(blob), progress_(progress), backoff_(api.retry(), api.stop()) {}

  // Runs until all bytes are downloaded.
  void run() {
    while (!blob_.complete()) {
      const int64_t before = blob_.size();
      std::exception_ptr error;
      std::optional<double> wait;
      try {
        const HttpResponse response = request();
        wait = retry_after(response);
        const bool cannot_resume = response.status == 416 && before > 0;
        if (cannot_resume) blob_.discard();
        try {
          require_ok(response, download_.repo, download_.file.path, api_.endpoint());
          require<IoError>(blob_.complete(), "[hub] ",
                           describe(concat("ended after ", blob_.size(), " of ", download_.file.size, " bytes")),
                           " Try again.");
        } catch (const IoError&) {
          if (!response.ok() && !cannot_resume && !is_transient(response.status)) throw;
          error = std::current_exception();
        }
      } catch (const HttpError&) {
        error = std::current_exception();
      }
      if (blob_.complete()) return;
      if (blob_.size() > before) backoff_.reset();
      if (!backoff_.wait(describe("was interrupted or refused"), wait)) std::rethrow_exception(error);
    }
  }

 private:
  std::string describe(const std::string& what) const {
    return concat("\"", download_.file.path, "\" of ", download_.repo.text(), " ", what, ".");
  }

  HttpResponse request() {
    HttpRequest request{.url = api_.file_url(download_.repo, download_.commit, download_.file.path)};
    if (blob_.size() > 0) request.headers.push_back(concat("Range: bytes=", blob_.size(), "-"));
    bool checked = false;
    request.on_body = [&](const HttpResponse& response, std::string_view piece) {
      if (!checked) check_head(response);
      checked = true;
      require_size(blob_.size() + static_cast<int64_t>(piece.size()), /*at_least=*/true);
      blob_.append(piece);
      progress_.set(blob_.size());
    };
    return api_.client().send(request);
  }

  void check_head(const HttpResponse& response) {
    if (blob_.size() > 0 && response.status == 200) {  // a server that does not support ranges sends the full file
      blob_.discard();
      progress_.set(0);
    }
    if (response.status == 206) {
      require<FormatError>(response.header("Content-Range").starts_with(concat("bytes ", blob_.size(), "-")), "[hub] ",
                           describe(concat("was requested from byte ", blob_.size(), "; the server sent ",
                                           response.header("Content-Range"))));
    }
    if (const int64_t size = announced_size(response); size >= 0) require_size(size, /*at_least=*/false);
  }

  void require_size(int64_t size, bool at_least) {
    const int64_t expected = download_.file.size;
    if (size == expected || (at_least && size < expected)) return;
    fail<FormatError>(
        "[hub] ",
        describe(concat("must have ", expected, " bytes; the server sends ", at_least ? "more" : concat(size))),
        " Try again, or check HF_ENDPOINT.");
  }

  HubApi& api_;
  const HubDownload& download_;
  PartialBlob& blob_;
  Progress& progress_;
  Backoff backoff_;
};

void fetch_blob(HubApi& api, const HubCache& cache, const HubDownload& download) {
  const HubFile& file = download.file;
  PartialBlob blob(cache.incomplete_blob(file.etag()), file);
  Progress progress(file.path, {.total = file.size, .unit = "B", .enabled = download.progress});
  progress.set(blob.size());
  // A wrong hash may come from a partial file of an earlier attempt: it is discarded, and everything is fetched once
  // more.
  for (int tries = 0;; ++tries) {
    const bool resumed = blob.resumed();
    Fetch(api, download, blob, progress).run();
    const std::string hash = blob.hex();
    if (hash == file.etag()) break;
    blob.discard();
    progress.set(0);
    require<FormatError>(tries == 0, "[hub] \"", file.path, "\" of ", download.repo.text(), " must have the ",
                         file.lfs_sha256.empty() ? "git SHA-1 " : "SHA-256 ", file.etag(), "; the download has ", hash,
                         ". Try again, or check HF_ENDPOINT.");
    log::warning("[hub] \"", file.path, "\" of ", download.repo.text(), " has a wrong hash",
                 resumed ? ", after resuming an earlier attempt" : "", "; downloading it once more.");
  }
  blob.commit(cache.blob(file.etag()));
}

}  // namespace

void download_file(HubApi& api, const HubCache& cache, const HubDownload& download) {
  const HubFile& file = download.file;
  if (cache.has(download.commit, file)) return;
  cache.prepare(download.commit);
  const FileLock lock(cache.lock(file.etag()), download.lock_timeout, api.stop());
  if (cache.has(download.commit, file)) return;
  std::error_code error;
  const auto size = fs::file_size(cache.blob(file.etag()), error);
  if (error || static_cast<int64_t>(size) != file.size) fetch_blob(api, cache, download);
  cache.link(download.commit, file, download.links);
}

}  // namespace easydel

#include "easydel/data/sources/record_text.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "easydel/core/error.h"
#include "easydel/core/text/bytes.h"
#include "easydel/data/sources/byte_stream.h"

namespace easydel::data {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kPiece = std::size_t{1} << 18;

class TextInMemory : public RecordText {
 public:
  TextInMemory(std::string text, std::shared_ptr<const RecordIndex> index)
      : text_(std::move(text)), index_(std::move(index)) {}
  std::string record(int64_t number) const override {
    const auto at = static_cast<std::size_t>(number);
    return text_.substr(index_->begins[at], index_->begins[at + 1] - index_->begins[at]);
  }

 private:
  std::string text_;
  std::shared_ptr<const RecordIndex> index_;
};

// Reads from the file itself. A file that shrinks meanwhile is an error, not a crash as with a map.
class TextInFile : public RecordText {
 public:
  TextInFile(int fd, fs::path path, std::shared_ptr<const RecordIndex> index)
      : fd_(fd), path_(std::move(path)), index_(std::move(index)) {}
  ~TextInFile() override { ::close(fd_); }
  TextInFile(const TextInFile&) = delete;
  TextInFile& operator=(const TextInFile&) = delete;

  std::string record(int64_t number) const override {
    const auto at = static_cast<std::size_t>(number);
    const uint64_t begin = index_->begins[at];
    std::string out(index_->begins[at + 1] - begin, '\0');
    for (std::size_t done = 0; done < out.size();) {
      const ssize_t got = ::pread(fd_, out.data() + done, out.size() - done, static_cast<off_t>(begin + done));
      if (got < 0 && errno == EINTR) continue;
      require<IoError>(got >= 0, "[data] cannot read ", path_.string(), ": ", errno_text(errno), ".");
      require<IoError>(got > 0, "[data] ", path_.string(), " was truncated while being read; it had ",
                       index_->begins.back(), " bytes.");
      done += static_cast<std::size_t>(got);
    }
    return out;
  }

 private:
  int fd_;
  fs::path path_;
  std::shared_ptr<const RecordIndex> index_;
};

// Unlinked: removed when the last descriptor is closed, however the process ends.
int make_temporary_file(const fs::path& directory) {
  std::string pattern = ((directory.empty() ? fs::temp_directory_path() : directory) / "easydel-data-XXXXXX").string();
  const int fd = ::mkostemp(pattern.data(), O_CLOEXEC);
  require<IoError>(fd >= 0, "[data] cannot create a temporary file ", pattern, ": ", errno_text(errno),
                   ". Set cache_dir to another directory.");
  ::unlink(pattern.c_str());
  return fd;
}

void write_all(int fd, std::string_view piece, const fs::path& path) {
  while (!piece.empty()) {
    const ssize_t put = ::write(fd, piece.data(), piece.size());
    if (put < 0 && errno == EINTR) continue;
    require<IoError>(put >= 0, "[data] cannot decompress ", path.string(),
                     " into a temporary file: ", errno_text(errno), ". Set cache_dir to another directory.");
    piece.remove_prefix(static_cast<std::size_t>(put));
  }
}

int open_to_read(const fs::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  require<IoError>(fd >= 0, "[data] cannot open ", path.string(), ": ", errno_text(errno), ".");
  return fd;
}

}  // namespace

ScannedText scan_text(const fs::path& path, RecordKind kind, const TextOptions& options) {
  const bool is_plain = compression_of(path) == Compression::None;
  const auto stream = open_stream(path);
  RecordScanner scanner(kind, path.string());
  std::string kept;  // of a compressed file, if it is small
  bool is_small = !is_plain;
  int spill = -1;
  struct Closer {
    int& fd;
    ~Closer() {
      if (fd >= 0) ::close(fd);
    }
  } closer{spill};
  std::string buffer(kPiece, '\0');
  for (std::size_t got; (got = stream->read(buffer)) > 0;) {
    const std::string_view piece(buffer.data(), got);
    scanner.feed(piece);
    if (is_plain) continue;
    if (is_small) kept += piece;
    if (is_small && kept.size() > options.memory_limit) {
      is_small = false;
      if (!options.streaming) write_all(spill = make_temporary_file(options.cache_dir), kept, path);
      kept = {};
    } else if (spill >= 0) {
      write_all(spill, piece, path);
    }
  }
  ScannedText result;
  result.index = std::make_shared<const RecordIndex>(scanner.finish());
  if (is_plain) {
    result.text = std::make_unique<TextInFile>(open_to_read(path), path, result.index);
  } else if (is_small) {
    result.text = std::make_unique<TextInMemory>(std::move(kept), result.index);
  } else if (spill >= 0) {
    result.text = std::make_unique<TextInFile>(std::exchange(spill, -1), path, result.index);
  } else {
    result.text = make_text_in_order(path, result.index);
  }
  return result;
}

}  // namespace easydel::data

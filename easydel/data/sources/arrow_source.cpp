#include "easydel/core/build_info.h"
#include "easydel/core/error.h"
#include "easydel/data/sources/file_sources.h"

#if EASYDEL_HAS_ARROW
#include <arrow/io/file.h>
#include <arrow/ipc/reader.h>
#include <arrow/table.h>
#include <arrow/util/byte_size.h>
#include <parquet/arrow/reader.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>

#include <algorithm>
#include <limits>
#include <list>
#include <map>
#include <mutex>

#include "easydel/data/sources/arrow_values.h"
#endif

namespace easydel::data {

#if EASYDEL_HAS_ARROW

namespace {

using TablePtr = std::shared_ptr<arrow::Table>;

template <class T>
T checked(arrow::Result<T> result, const std::string& where, const char* format) {
  require<FormatError>(result.ok(), "[", where, "] cannot be read as ", format, ": ", result.status().message(),
                       ". The file is damaged or truncated.");
  return std::move(result).ValueUnsafe();
}

void checked(const arrow::Status& status, const std::string& where, const char* format) {
  require<FormatError>(status.ok(), "[", where, "] cannot be read as ", format, ": ", status.message(),
                       ". The file is damaged or truncated.");
}

// A cache of recently read pieces, shared by all files.
class PieceCache {
 public:
  TablePtr find(const void* owner, int64_t piece) {
    const std::lock_guard lock(mutex_);
    const auto found = places_.find({owner, piece});
    if (found == places_.end()) return nullptr;
    entries_.splice(entries_.begin(), entries_, found->second);
    return found->second->table;
  }
  void add(const void* owner, int64_t piece, TablePtr table) {
    const std::lock_guard lock(mutex_);
    const int64_t bytes = arrow::util::TotalBufferSize(*table);
    entries_.push_front({{owner, piece}, std::move(table), bytes});
    places_[{owner, piece}] = entries_.begin();
    bytes_ += bytes;
    while (bytes_ > kMaxBytes && entries_.size() > 2) drop(std::prev(entries_.end()));
  }
  void forget(const void* owner) {
    const std::lock_guard lock(mutex_);
    const auto begin = places_.lower_bound({owner, 0});
    for (auto at = begin; at != places_.end() && at->first.first == owner;) drop((at++)->second);
  }

 private:
  static constexpr int64_t kMaxBytes = int64_t{512} << 20;
  using Key = std::pair<const void*, int64_t>;  // the file and the number of the piece
  struct Entry {
    Key key;
    TablePtr table;
    int64_t bytes;
  };
  void drop(std::list<Entry>::iterator at) {
    bytes_ -= at->bytes;
    places_.erase(at->key);
    entries_.erase(at);
  }
  std::mutex mutex_;
  std::list<Entry> entries_;  // most recently used first
  std::map<Key, std::list<Entry>::iterator> places_;
  int64_t bytes_ = 0;
};

PieceCache& cache() {
  static auto* one = new PieceCache;  // sources may outlive static objects
  return *one;
}

// Rows in pieces that are read as a unit: row groups, record batches.
class PiecesSource : public Source {
 public:
  explicit PiecesSource(std::string path) : path_(std::move(path)) {}
  ~PiecesSource() override { cache().forget(this); }

  int64_t size() const override { return size_; }
  std::string place(int64_t index) const override { return concat(path_, ", row ", index + 1); }
  std::filesystem::path folder(int64_t) const override { return std::filesystem::path(path_).parent_path(); }
  Json row(int64_t index) const override {
    const auto piece = std::upper_bound(begins_.begin(), begins_.end(), index) - begins_.begin() - 1;
    const TablePtr table = load(piece);
    const int64_t inside = index - begins_[static_cast<std::size_t>(piece)];
    require<FormatError>(inside < table->num_rows(), "[", place(index), "] the file has fewer rows than it claims.");
    return arrow_row(*table, inside, place(index));
  }

 protected:
  void add_piece(int64_t rows) {
    require<FormatError>(rows >= 0 && rows < std::numeric_limits<int64_t>::max() - size_, "[", path_,
                         "] claims a part with ", rows, " rows.");
    begins_.push_back(size_);
    size_ += rows;
  }
  virtual TablePtr read(int64_t piece) const = 0;  // one caller at a time

  std::string path_;

 private:
  TablePtr load(int64_t piece) const {
    if (auto found = cache().find(this, piece)) return found;
    const std::lock_guard lock(mutex_);
    if (auto found = cache().find(this, piece)) return found;
    TablePtr table = read(piece);
    cache().add(this, piece, table);
    return table;
  }

  std::vector<int64_t> begins_;
  int64_t size_ = 0;
  mutable std::mutex mutex_;
};

std::shared_ptr<arrow::io::RandomAccessFile> open_map(const std::string& path, const char* format) {
  require<IoError>(std::filesystem::exists(path), "[data] file ", path, " does not exist.");
  require<FormatError>(std::filesystem::file_size(path) > 0, "[", path, "] cannot be read as ", format,
                       ": it is empty.");
  return checked(arrow::io::MemoryMappedFile::Open(path, arrow::io::FileMode::READ), path, format);
}

class ParquetSource : public PiecesSource {
 public:
  explicit ParquetSource(const std::string& path) : PiecesSource(path) {
    guarded([&] {
      parquet::ReaderProperties properties = parquet::default_reader_properties();
      properties.set_page_checksum_verification(true);  // of files that have checksums
      parquet::arrow::FileReaderBuilder builder;
      checked(builder.Open(checked(arrow::io::ReadableFile::Open(path), path, "Parquet"), properties), path, "Parquet");
      reader_ = checked(builder.Build(), path, "Parquet");
      const auto metadata = reader_->parquet_reader()->metadata();
      for (int i = 0; i < metadata->num_row_groups(); ++i) add_piece(metadata->RowGroup(i)->num_rows());
    });
  }
  Access access() const override { return Access::Grouped; }

 private:
  template <class Action>
  void guarded(const Action& action) const {
    try {
      action();
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      fail<FormatError>("[", path_, "] cannot be read as Parquet: ", error.what(),
                        ". The file is damaged or truncated.");
    }
  }
  TablePtr read(int64_t piece) const override {
    TablePtr table;
    guarded([&] { table = checked(reader_->ReadRowGroup(static_cast<int>(piece)), path_, "Parquet"); });
    return table;
  }

  std::unique_ptr<parquet::arrow::FileReader> reader_;
};

constexpr const char* kArrow = "Arrow";

TablePtr as_table(const std::shared_ptr<arrow::RecordBatch>& batch, const std::string& path) {
  return checked(arrow::Table::FromRecordBatches({batch}), path, kArrow);
}

class ArrowFileSource : public PiecesSource {
 public:
  ArrowFileSource(const std::string& path, const std::shared_ptr<arrow::io::RandomAccessFile>& file)
      : PiecesSource(path), reader_(checked(arrow::ipc::RecordBatchFileReader::Open(file), path, kArrow)) {
    for (int i = 0; i < reader_->num_record_batches(); ++i) {
      const int64_t before = arrow::default_memory_pool()->bytes_allocated();
      const auto batch = checked(reader_->ReadRecordBatch(i), path, kArrow);
      const int64_t made = arrow::default_memory_pool()->bytes_allocated() - before;
      checked(batch->ValidateFull(), path, kArrow);
      // Uncompressed data is in the map and costs nothing to read again.
      if (2 * made > arrow::util::TotalBufferSize(*batch)) access_ = Access::Grouped;
      add_piece(batch->num_rows());
    }
  }
  Access access() const override { return access_; }

 private:
  TablePtr read(int64_t piece) const override {
    return as_table(checked(reader_->ReadRecordBatch(static_cast<int>(piece)), path_, kArrow), path_);
  }
  std::shared_ptr<arrow::ipc::RecordBatchFileReader> reader_;
  Access access_ = Access::Random;
};

// A stream has no index of its batches; they are kept, in the map if uncompressed.
class ArrowStreamSource : public PiecesSource {
 public:
  ArrowStreamSource(const std::string& path, const std::shared_ptr<arrow::io::RandomAccessFile>& file)
      : PiecesSource(path) {
    const auto reader = checked(arrow::ipc::RecordBatchStreamReader::Open(file), path, kArrow);
    for (std::shared_ptr<arrow::RecordBatch> batch; (batch = checked(reader->Next(), path, kArrow));) {
      checked(batch->ValidateFull(), path, kArrow);
      add_piece(batch->num_rows());
      tables_.push_back(as_table(batch, path));
    }
  }

 private:
  TablePtr read(int64_t piece) const override { return tables_[static_cast<std::size_t>(piece)]; }
  std::vector<TablePtr> tables_;
};

}  // namespace

SourcePtr open_parquet(const std::filesystem::path& path) {
  open_map(path.string(), "Parquet");
  return std::make_shared<ParquetSource>(path.string());
}

SourcePtr open_arrow(const std::filesystem::path& path) {
  const auto file = open_map(path.string(), kArrow);
  const auto start = checked(file->ReadAt(0, 6), path.string(), kArrow);
  const std::string_view magic(reinterpret_cast<const char*>(start->data()), static_cast<std::size_t>(start->size()));
  require<NotSupportedError>(!magic.starts_with("FEA1"), "[", path.string(),
                             "] is Feather version 1, which is not supported. Save it as version 2.");
  if (magic == "ARROW1") return std::make_shared<ArrowFileSource>(path.string(), file);
  return std::make_shared<ArrowStreamSource>(path.string(), file);
}

#else

namespace {

[[noreturn]] void refuse(const std::filesystem::path& path, const char* format) {
  fail<NotSupportedError>("[", path.string(), "] is a ", format,
                          " file, and this build has no Arrow. Install the pyarrow package next to torch, or "
                          "libparquet-dev, and build again.");
}

}  // namespace

SourcePtr open_parquet(const std::filesystem::path& path) { refuse(path, "Parquet"); }
SourcePtr open_arrow(const std::filesystem::path& path) { refuse(path, "Arrow"); }

#endif

}  // namespace easydel::data

#include <algorithm>
#include <atomic>
#include <deque>
#include <mutex>

#include "easydel/core/error.h"
#include "easydel/core/text/bytes.h"
#include "easydel/data/sources/byte_stream.h"
#include "easydel/data/sources/record_text.h"

namespace easydel::data {
namespace {

constexpr std::size_t kPiece = std::size_t{1} << 18;
constexpr uint64_t kMaxRecordBytes = uint64_t{1} << 30;
constexpr int64_t kKeptRows = 4096;

class TextInOrder : public RecordText {
 public:
  TextInOrder(std::filesystem::path path, std::shared_ptr<const RecordIndex> index)
      : path_(std::move(path)), index_(std::move(index)), kept_rows_(kKeptRows) {}

  std::string record(int64_t number) const override {
    const std::lock_guard lock(mutex_);
    if (!stream_ || number < first_) start();
    while (number >= first_ + static_cast<int64_t>(kept_.size())) read_next();
    return kept_[static_cast<std::size_t>(number - first_)];
  }
  Access access() const override { return Access::InOrder; }
  void keep_rows(int64_t count) const override {
    const std::lock_guard lock(mutex_);
    kept_rows_ = std::max(kept_rows_, count);
  }

 private:
  void start() const {
    stream_ = open_stream(path_);
    first_ = 0;
    kept_.clear();
    buffer_.clear();
    buffer_at_ = 0;
    if (!index_->begins.empty()) skip_to(index_->begins[0]);
  }

  void refill() const {
    buffer_.resize(kPiece);
    buffer_.resize(stream_->read(buffer_));
    buffer_at_ = 0;
    require<IoError>(!buffer_.empty(), "[data] ", path_.string(), " was truncated while being read.");
  }

  void skip_to(uint64_t count) const {
    while (count > 0) {
      if (buffer_at_ == buffer_.size()) refill();
      const std::size_t step = std::min<uint64_t>(count, buffer_.size() - buffer_at_);
      buffer_at_ += step;
      count -= step;
    }
  }

  void read_next() const {
    const auto number = static_cast<std::size_t>(first_) + kept_.size();
    const uint64_t size = index_->begins[number + 1] - index_->begins[number];
    require<FormatError>(size <= kMaxRecordBytes, "[", path_.string(), "] row ", number + 1, " has ",
                         format_bytes(static_cast<int64_t>(size)), "; the limit is ",
                         format_bytes(static_cast<int64_t>(kMaxRecordBytes)), ".");
    std::string record;
    record.reserve(size);
    while (record.size() < size) {
      if (buffer_at_ == buffer_.size()) refill();
      const std::size_t step = std::min<uint64_t>(size - record.size(), buffer_.size() - buffer_at_);
      record.append(buffer_, buffer_at_, step);
      buffer_at_ += step;
    }
    kept_.push_back(std::move(record));
    if (static_cast<int64_t>(kept_.size()) > kept_rows_) {
      kept_.pop_front();
      ++first_;
    }
  }

  std::filesystem::path path_;
  std::shared_ptr<const RecordIndex> index_;
  mutable std::mutex mutex_;
  mutable int64_t kept_rows_;
  mutable std::unique_ptr<ByteStream> stream_;
  mutable std::string buffer_;
  mutable std::size_t buffer_at_ = 0;
  mutable std::deque<std::string> kept_;
  mutable int64_t first_ = 0;  // the number of kept_[0]
};

}  // namespace

std::unique_ptr<const RecordText> make_text_in_order(std::filesystem::path path,
                                                     std::shared_ptr<const RecordIndex> index) {
  return std::make_unique<TextInOrder>(std::move(path), std::move(index));
}

}  // namespace easydel::data

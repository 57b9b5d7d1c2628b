#include "easydel/data/sources/records.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "easydel/core/error.h"
#include "easydel/core/json/json.h"
#include "easydel/core/text/utf8.h"

namespace easydel::data {
namespace {

bool is_blank(std::string_view text) { return text.find_first_not_of(" \t\r\n") == std::string_view::npos; }

}  // namespace

std::string_view without_bom(std::string_view text) { return text.starts_with("\xEF\xBB\xBF") ? text.substr(3) : text; }

int64_t RecordIndex::line_of(int64_t record) const {
  const auto before = std::upper_bound(blank_before.begin(), blank_before.end(), static_cast<uint64_t>(record));
  return record + 1 + (before - blank_before.begin());
}

void RecordScanner::check_utf8(std::string_view piece, bool is_last) {
  std::string joined;
  if (!utf8_carry_.empty()) {
    joined = std::move(utf8_carry_) + std::string(piece);
    utf8_carry_.clear();
    piece = joined;
  }
  const std::size_t bad = invalid_utf8(piece);
  if (bad == std::string_view::npos) {
    checked_ += piece.size();
    return;
  }
  require<FormatError>(!is_last && piece.size() - bad < 4, "[", where_, "] is not UTF-8: byte ", checked_ + bad,
                       " is invalid. Convert the file, with iconv for example.");
  utf8_carry_ = piece.substr(bad);
  checked_ += bad;
}

void RecordScanner::feed(std::string_view piece) {
  if (at_ > 0) return scan(piece);
  start_ += piece;  // a byte order mark is never split
  if (start_.size() < 3) return;
  scan(std::exchange(start_, {}));
}

void RecordScanner::scan(std::string_view piece) {
  check_utf8(piece, false);
  if (kind_ == RecordKind::Csv || kind_ == RecordKind::Tsv) {
    feed_csv(piece);
  } else {
    feed_lines(piece);
  }
  at_ += piece.size();
}

void RecordScanner::feed_lines(std::string_view piece) {
  std::size_t from = 0;
  while (from < piece.size()) {
    const void* found = std::memchr(piece.data() + from, '\n', piece.size() - from);
    const std::size_t end = found ? static_cast<const char*>(found) - piece.data() : piece.size();
    std::string_view line = piece.substr(from, end - from);
    if (at_ + from == 0) line = without_bom(line);
    blank_ = blank_ && is_blank(line);
    if (!found) return;
    end_line(at_ + end + 1);
    from = end + 1;
  }
}

void RecordScanner::end_line(uint64_t next) {
  if (kind_ == RecordKind::JsonLine && blank_) {
    index_.blank_before.push_back(index_.begins.size());
  } else {
    index_.begins.push_back(record_begin_);
  }
  record_begin_ = next;
  blank_ = true;
}

RecordIndex RecordScanner::finish() {
  if (!start_.empty()) scan(std::exchange(start_, {}));
  check_utf8({}, true);
  if (kind_ == RecordKind::Csv || kind_ == RecordKind::Tsv) {
    require<FormatError>(cell_ != Cell::Quoted, "[", where_, "] line ", record_line_, ": a quote is never closed.");
    if (!is_empty_) end_csv_record();
  } else if (record_begin_ < at_) {
    end_line(at_);
  }
  index_.begins.push_back(at_);
  return std::move(index_);
}

}  // namespace easydel::data

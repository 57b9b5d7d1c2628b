#include <set>

#include "easydel/core/error.h"
#include "easydel/data/sources/records.h"

namespace easydel::data {
void RecordScanner::feed_csv(std::string_view piece) {
  const char delimiter = kind_ == RecordKind::Tsv ? '\t' : ',';
  for (std::size_t i = 0; i < piece.size(); ++i) {
    const char c = piece[i];
    if (cell_ == Cell::AfterReturn) {
      cell_ = Cell::Begin;
      if (c == '\n') {
        ++record_begin_;
        continue;
      }
    }
    if (index_.header.empty()) header_text_ += c;
    if (at_ + i < 3 && header_text_ == std::string_view("\xEF\xBB\xBF").substr(0, at_ + i + 1)) continue;
    if (cell_ == Cell::Quoted) {
      if (c == '"') cell_ = Cell::QuoteInQuoted;
      line_ += c == '\n';
      continue;
    }
    if (c == '"' && cell_ == Cell::QuoteInQuoted) {
      cell_ = Cell::Quoted;
    } else if (c == '\n' || c == '\r') {
      if (!is_empty_) end_csv_record();
      record_begin_ = at_ + i + 1;
      cell_ = c == '\r' ? Cell::AfterReturn : Cell::Begin;
      record_line_ = ++line_;
      header_text_.clear();
    } else if (c == delimiter) {
      cell_ = Cell::Begin;
      ++cells_;
      is_empty_ = false;
    } else {
      require<FormatError>(cell_ != Cell::QuoteInQuoted, "[", where_, "] line ", line_,
                           ": there is text after a closing quote; a quote inside a cell is written as \"\".");
      cell_ = cell_ == Cell::Begin && c == '"' ? Cell::Quoted : Cell::Plain;
      is_empty_ = false;
    }
  }
}

void RecordScanner::end_csv_record() {
  const auto cells = static_cast<std::size_t>(cells_ + 1);
  cells_ = 0;
  is_empty_ = true;
  if (!index_.header.empty()) {
    require<FormatError>(cells <= index_.header.size(), "[", where_, "] line ", record_line_, ": the row has ", cells,
                         " cells; the header names ", index_.header.size(), ".");
    index_.begins.push_back(record_begin_);
    return;
  }
  index_.header = split_csv(header_text_, kind_ == RecordKind::Tsv ? '\t' : ',');
  std::set<std::string> names;
  for (const std::string& name : index_.header) {
    require<FormatError>(names.insert(name).second, "[", where_, "] the header names \"", name, "\" twice.");
  }
}

std::vector<std::string> split_csv(std::string_view record, char delimiter) {
  record = without_bom(record);
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (std::size_t i = 0; i < record.size(); ++i) {
    const char c = record[i];
    if (quoted) {
      const bool ends = c == '"' && (i + 1 == record.size() || record[i + 1] != '"');
      if (ends) {
        quoted = false;
      } else {
        cells.back() += c;
        i += c == '"';
      }
    } else if (c == delimiter) {
      cells.emplace_back();
    } else if (c == '\n' || c == '\r') {
      break;
    } else if (c == '"' && cells.back().empty() && (i == 0 || record[i - 1] == delimiter)) {
      quoted = true;
    } else {
      cells.back() += c;
    }
  }
  return cells;
}

}  // namespace easydel::data

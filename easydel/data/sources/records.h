// Finds the records of a text: the lines of JSONL and of text, the rows of CSV, which may contain line breaks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace easydel::data {

enum class RecordKind {
  JsonLine,  // a line that is not blank
  TextLine,  // any line
  Csv,       // RFC 4180; the first record is the header
  Tsv,       // the same with tabs
};

struct RecordIndex {
  std::vector<uint64_t> begins;        // of each record, and one more: the end of the text
  std::vector<uint64_t> blank_before;  // for each blank line, the number of records before it
  std::vector<std::string> header;     // of CSV
  int64_t size() const { return static_cast<int64_t>(begins.size()) - 1; }
  int64_t line_of(int64_t record) const;  // from 1 on; for lines only
};

// Reads a text in pieces and finds its records. FormatError on bytes that are not UTF-8, and on invalid CSV: a quote
// that is not closed, text after a closing quote, a row with more cells than the header, a duplicate field in the
// header.
class RecordScanner {
 public:
  RecordScanner(RecordKind kind, std::string where) : kind_(kind), where_(std::move(where)) {}
  void feed(std::string_view piece);
  RecordIndex finish();

 private:
  void scan(std::string_view piece);
  void check_utf8(std::string_view piece, bool is_last);
  void feed_lines(std::string_view piece);
  void feed_csv(std::string_view piece);
  void end_line(uint64_t end);
  void end_csv_record();

  RecordKind kind_;
  std::string where_;
  RecordIndex index_;
  std::string start_;       // the first bytes, until there are enough to detect a byte order mark
  uint64_t at_ = 0;         // bytes before the piece
  std::string utf8_carry_;  // the beginning of a character whose rest is in the next piece
  uint64_t checked_ = 0;    // bytes that are known to be UTF-8
  uint64_t record_begin_ = 0;
  bool blank_ = true;  // the line so far
  // CSV: the position in a cell.
  enum class Cell { Begin, Plain, Quoted, QuoteInQuoted, AfterReturn } cell_ = Cell::Begin;
  int64_t cells_ = 0;
  int64_t line_ = 1, record_line_ = 1;
  bool is_empty_ = true;  // the record so far
  std::string header_text_;
};

// Strips the byte order mark that some editors write at the beginning of a file.
std::string_view without_bom(std::string_view text);

// The cells of one record as RecordScanner found it.
std::vector<std::string> split_csv(std::string_view record, char delimiter);

}  // namespace easydel::data

// The records of JSONL, text, CSV and TSV: the same for any division of the text into chunks.
#include "easydel/data/sources/records.h"

#include "easydel/data/sources/data_files.h"
#include "fuzz.h"

using namespace easydel;
using data::RecordIndex;
using data::RecordKind;

namespace {

RecordIndex scan(RecordKind kind, std::string_view text, std::size_t piece) {
  data::RecordScanner scanner(kind, "fuzz");
  for (std::size_t at = 0; at < text.size(); at += piece) scanner.feed(text.substr(at, piece));
  return scanner.finish();
}

std::string outcome(RecordKind kind, std::string_view text, std::size_t piece, RecordIndex& index) {
  try {
    index = scan(kind, text, piece);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

void check(RecordKind kind, std::string_view text, const RecordIndex& index) {
  const bool is_table = kind == RecordKind::Csv || kind == RecordKind::Tsv;
  if (index.begins.empty() || index.begins.back() != text.size()) fuzz::found("the index does not end with the text");
  for (int64_t i = 0; i < index.size(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (index.begins[at] >= index.begins[at + 1]) fuzz::found("records do not follow each other");
    const std::string_view record = text.substr(index.begins[at], index.begins[at + 1] - index.begins[at]);
    if (!is_table) {
      if (index.line_of(i) < i + 1) fuzz::found("a line has a number that is too small");
      continue;
    }
    const auto cells = data::split_csv(record, kind == RecordKind::Csv ? ',' : '\t');
    if (cells.size() > index.header.size()) fuzz::found("a row has more cells than was counted");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, std::size_t size) {
  if (size < 2) return 0;
  const auto kind = static_cast<RecordKind>(bytes[0] % 4);
  const std::size_t piece = 1 + bytes[1] % 7;
  const std::string_view text = fuzz::as_text(bytes + 2, size - 2);
  RecordIndex whole, in_pieces;
  const std::string said = outcome(kind, text, text.size() + 1, whole);
  // If there are two errors, the chunks may decide which is reported first.
  if (outcome(kind, text, piece, in_pieces).empty() != said.empty()) fuzz::found("pieces change the outcome");
  if (said.empty()) {
    if (whole.begins != in_pieces.begins || whole.header != in_pieces.header) fuzz::found("pieces change the records");
    check(kind, text, whole);
  }
  return fuzz::refuse_or([&] { data::parse_split(std::string(text)); });
}

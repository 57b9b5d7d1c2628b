#include "easydel/core/error.h"
#include "easydel/core/text/utf8.h"
#include "easydel/data/sources/byte_stream.h"
#include "easydel/data/sources/file_sources.h"

namespace easydel::data {
namespace {

constexpr std::size_t kWholeFile = std::size_t{4} << 30;

std::string_view without_line_end(std::string_view text) {
  if (text.ends_with('\n')) text.remove_suffix(1);
  if (text.ends_with('\r')) text.remove_suffix(1);
  return text;
}

class RecordSource : public Source {
 public:
  RecordSource(std::filesystem::path path, RecordKind kind, const TextOptions& options)
      : path_(std::move(path)), kind_(kind), scanned_(scan_text(path_, kind, options)) {}

  int64_t size() const override { return scanned_.index->size(); }
  Access access() const override { return scanned_.text->access(); }
  void keep_rows(int64_t count) const override { scanned_.text->keep_rows(count); }
  std::filesystem::path folder(int64_t) const override { return path_.parent_path(); }

  std::string place(int64_t index) const override {
    return kind_ == RecordKind::JsonLine ? concat(path_.string(), ", line ", scanned_.index->line_of(index))
                                         : concat(path_.string(), ", row ", index + 1);
  }

  Json row(int64_t index) const override {
    const std::string record = scanned_.text->record(index);
    const std::string_view text = index == 0 ? without_bom(record) : std::string_view(record);
    switch (kind_) {
      case RecordKind::JsonLine: return parse_json(text, index);
      case RecordKind::TextLine: return Json::object({{"text", without_line_end(text)}});
      case RecordKind::Csv: return named_cells(split_csv(record, ','));
      case RecordKind::Tsv: return named_cells(split_csv(record, '\t'));
    }
    return {};
  }

 private:
  Json parse_json(std::string_view text, int64_t index) const {
    Json row = Json::parse(without_line_end(text), {.where = place(index)});
    require<FormatError>(row.is_object(), "[", place(index), "] a row must be an object; got ", row.type_name(), ".");
    return row;
  }

  Json named_cells(std::vector<std::string> cells) const {
    Json row = Json::object();
    const std::vector<std::string>& names = scanned_.index->header;
    for (std::size_t i = 0; i < names.size(); ++i) {
      row[names[i]] = i < cells.size() ? Json(std::move(cells[i])) : Json();
    }
    return row;
  }

  std::filesystem::path path_;
  RecordKind kind_;
  ScannedText scanned_;
};

// Whether a .json file has an object on each line, as many do: the first line is an object by itself, and not one that
// contains the rows.
bool is_json_lines(const std::filesystem::path& path) {
  constexpr std::size_t kMaxLineBytes = std::size_t{16} << 20;
  const auto stream = open_stream(path);
  std::string text(std::size_t{1} << 16, '\0');
  std::string line;
  for (std::size_t got; line.size() < kMaxLineBytes && (got = stream->read(text)) > 0;) {
    line.append(text, 0, got);
    const std::size_t from = without_bom(line).find_first_not_of(" \t\r\n");
    if (from == std::string::npos) continue;
    if (without_bom(line)[from] != '{') return false;
    if (line.find('\n', line.size() - got) != std::string::npos) break;
  }
  const std::string_view start = without_bom(line);
  const std::size_t from = start.find_first_not_of(" \t\r\n");
  if (from == std::string::npos) return false;
  try {
    const Json first = Json::parse(start.substr(from, start.find('\n', from) - from));
    return first.is_object() && !(first.find("data") && first.find("data")->is_array());
  } catch (const FormatError&) {
    return false;
  }
}

std::string read_utf8(const std::filesystem::path& path) {
  std::string text = read_all(*open_stream(path), kWholeFile, path.string());
  const std::size_t bad = invalid_utf8(text);
  require<FormatError>(bad == std::string::npos, "[", path.string(), "] is not UTF-8: byte ", bad,
                       " is invalid. Convert the file, with iconv for example.");
  return text;
}

}  // namespace

SourcePtr open_records(const std::filesystem::path& path, RecordKind kind, const TextOptions& options) {
  return std::make_shared<RecordSource>(path, kind, options);
}

SourcePtr open_whole_text(const std::filesystem::path& path) {
  return make_source({Json::object({{"text", without_bom(read_utf8(path))}})}, path.string());
}

SourcePtr open_json(const std::filesystem::path& path) {
  const std::string text = read_utf8(path);
  Json value = Json::parse(without_bom(text), {.where = path.string()});
  if (value.is_object() && value.find("data") && value.find("data")->is_array()) value = Json(value.at("data"));
  require<FormatError>(value.is_array(), "[", path.string(),
                       "] a JSON file must be an array of objects, or an object with such an array under \"data\"; "
                       "got ",
                       value.type_name(),
                       ". A file with an object on each line is JSONL: rename it to .jsonl, or set type.");
  return make_source(std::move(value.as_array()), path.string());
}

SourcePtr open_file(const std::filesystem::path& path, FileType type, const FileOptions& options) {
  switch (type) {
    case FileType::Json:
      return is_json_lines(path) ? open_records(path, RecordKind::JsonLine, options.text) : open_json(path);
    case FileType::JsonLines: return open_records(path, RecordKind::JsonLine, options.text);
    case FileType::Csv: return open_records(path, RecordKind::Csv, options.text);
    case FileType::Tsv: return open_records(path, RecordKind::Tsv, options.text);
    case FileType::Text:
      return options.whole_text ? open_whole_text(path) : open_records(path, RecordKind::TextLine, options.text);
    case FileType::Parquet: return open_parquet(path);
    case FileType::Arrow: return open_arrow(path);
  }
  return nullptr;
}

}  // namespace easydel::data

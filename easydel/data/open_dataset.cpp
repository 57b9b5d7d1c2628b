#include "easydel/data/open_dataset.h"

#include <algorithm>
#include <array>

#include "easydel/core/error.h"
#include "easydel/data/rows/row_filter.h"
#include "easydel/data/sources/data_files.h"

namespace easydel::data {
namespace {

// Reserved fields, which content_field does not rename.
constexpr std::array<std::string_view, 9> kMeaning = {"messages", "conversations", "prompt",     "completion", "chosen",
                                                      "rejected", "input_ids",     "prompt_ids", "tokens"};

class FieldMap : public Source {
 public:
  FieldMap(SourcePtr source, const DatasetOptions& options, std::string target)
      : source_(std::move(source)),
        renamed_(options.format_fields),
        content_(options.content_field),
        additional_(options.additional_fields),
        target_(std::find(kMeaning.begin(), kMeaning.end(), content_) == kMeaning.end() ? std::move(target)
                                                                                        : content_) {}

  int64_t size() const override { return source_->size(); }
  std::string place(int64_t index) const override { return source_->place(index); }
  std::filesystem::path folder(int64_t index) const override { return source_->folder(index); }
  Access access() const override { return source_->access(); }
  void keep_rows(int64_t count) const override { source_->keep_rows(count); }

  Json row(int64_t index) const override {
    Row row{source_->row(index), source_.get(), index};
    if (!renamed_.empty()) row.values = rename(row);
    if (content_.empty()) return std::move(row.values);
    Json kept = Json::object({{target_, field_of(row, content_)}});
    for (const std::string& name : additional_) kept[name] = field_of(row, name);
    return kept;
  }

 private:
  Json rename(const Row& row) const {
    for (const auto& [from, to] : renamed_) field_of(row, from);
    Json out = Json::object();
    for (const auto& [name, value] : row.values.as_object()) {
      const auto found = renamed_.find(name);
      if (found == renamed_.end() && is_target(name)) continue;  // replaced by the renamed field
      out[found == renamed_.end() ? name : found->second] = value;
    }
    return out;
  }
  bool is_target(const std::string& name) const {
    return std::any_of(renamed_.begin(), renamed_.end(), [&](const auto& entry) { return entry.second == name; });
  }

  SourcePtr source_;
  std::map<std::string, std::string> renamed_;
  std::string content_;
  std::vector<std::string> additional_;
  std::string target_;
};

SourcePtr filtered(const SourcePtr& source, const DatasetOptions& options) {
  const RowFilter filter(options.filter_query);
  const int64_t wanted = options.num_rows.value_or(source->size());
  std::vector<int64_t> kept;
  for (int64_t i = 0; i < source->size() && static_cast<int64_t>(kept.size()) < wanted; ++i) {
    if (filter({source->row(i), source.get(), i})) kept.push_back(i);
  }
  require<FormatError>(!kept.empty(), "[filter_query] ", options.filter_query, " drops all ", source->size(),
                       " rows of ", name_of(options), ".");
  return select_rows(source, std::move(kept));
}

}  // namespace

std::string name_of(const DatasetOptions& options) {
  if (!options.name.empty()) return options.name;
  const bool is_hub = options.type.find('/') != std::string::npos;
  return is_hub || options.data_files.empty() ? options.type : options.data_files[0];
}

SourcePtr open_dataset(const DatasetOptions& options, const MixtureOptions& mixture) {
  require<ConfigError>(options.num_rows.value_or(1) > 0, "[num_rows] must be above 0; got ",
                       options.num_rows.value_or(1), ".");
  require<ConfigError>(options.sample_by == "line" || options.sample_by == "document",
                       "[sample_by] must be line or document; got \"", options.sample_by, "\".");
  const Split split = parse_split(options.split);
  const FileOptions file_options{.text = {.streaming = mixture.streaming, .cache_dir = mixture.cache_dir},
                                 .whole_text = options.sample_by == "document"};
  std::vector<SourcePtr> files;
  for (const DataFile& file : find_data_files(options)) files.push_back(open_file(file.path, file.type, file_options));
  SourcePtr source = concatenate(std::move(files));
  require<FormatError>(source->size() > 0, "[", name_of(options), "] the data set is empty: it has no rows.");
  const auto [begin, end] = slice_bounds(split.slice, source->size());
  source = slice_rows(source, begin, end);
  require<FormatError>(source->size() > 0, "[split] ", options.split, " leaves no row of ", name_of(options), ".");
  if (!options.filter_query.empty()) {
    source = filtered(source, options);
  } else if (options.num_rows) {
    source = slice_rows(source, 0, *options.num_rows);
  }
  if (options.format_fields.empty() && options.content_field.empty()) return source;
  return std::make_shared<FieldMap>(source, options, mixture.text_target_field);
}

}  // namespace easydel::data

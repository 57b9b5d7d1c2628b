#include "easydel/elarge/eval/eval_data.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>

#include "easydel/core/error.h"
#include "easydel/data/open_dataset.h"

namespace easydel {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kTypes[] = {"json", "jsonl", "csv", "tsv", "parquet", "arrow", "text", "txt"};
constexpr std::string_view kKwargs[] = {"data_files", "data_dir", "sample_by"};
constexpr std::string_view kIgnored[] = {"trust_remote_code", "cache_dir", "download_mode", "streaming"};

bool among(std::string_view name, const auto& names) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

std::optional<Json> to_number(const std::string& text) {
  int64_t integer = 0;
  double number = 0;
  const char* end = text.data() + text.size();
  if (const auto r = std::from_chars(text.data(), end, integer); r.ec == std::errc() && r.ptr == end) return integer;
  if (const auto r = std::from_chars(text.data(), end, number); r.ec == std::errc() && r.ptr == end) return number;
  return std::nullopt;
}

// CSV files hold texts. A column is of numbers when every cell is one, of integers when every cell is one of those.
class NumberColumns : public data::Source {
 public:
  explicit NumberColumns(data::SourcePtr source) : source_(std::move(source)) {
    std::set<std::string> texts;
    for (int64_t i = 0; i < source_->size(); ++i) {
      const Json row = source_->row(i);
      for (const auto& [name, value] : row.as_object()) {
        if (texts.contains(name)) continue;
        const auto number = value.is_string() ? to_number(value.as_string()) : std::nullopt;
        if (!number) {
          texts.insert(name);
          integers_.erase(name);
        } else {
          const auto [at, is_new] = integers_.try_emplace(name, true);
          at->second = at->second && number->is_int();
        }
      }
    }
  }
  int64_t size() const override { return source_->size(); }
  std::string place(int64_t index) const override { return source_->place(index); }
  data::Access access() const override { return source_->access(); }
  Json row(int64_t index) const override {
    Json row = source_->row(index);
    for (const auto& [name, integer] : integers_) {
      Json& cell = row[name];
      if (const auto number = cell.is_string() ? to_number(cell.as_string()) : std::nullopt)
        cell = integer ? *number : Json(number->as_double());
    }
    return row;
  }

 private:
  data::SourcePtr source_;
  std::map<std::string, bool> integers_;
};

std::string local_path(const EvalTask& task, const std::string& path) {
  std::error_code ignored;
  const bool has_pattern = path.find_first_of("*?[") != std::string::npos;
  if (fs::path(path).is_absolute() || (!has_pattern && fs::exists(path, ignored))) return path;
  const fs::path beside = task.file.parent_path() / path;
  return has_pattern || fs::exists(beside, ignored) ? beside.string() : path;
}

// The files that data_files names for a split: a text or a list is the split "train", as in datasets.
std::vector<std::string> files_of(const EvalTask& task, const Json& given, const std::string& split) {
  const std::string where = task.where("dataset_kwargs") + ".data_files";
  const Json* files = &given;
  if (given.is_object()) {
    files = given.find(split);
    std::vector<std::string> names;
    std::string listed;
    for (const auto& [name, value] : given.as_object()) {
      names.push_back(name);
      listed += (listed.empty() ? "" : ", ") + name;
    }
    const std::string near = nearest_name(split, names);
    require<ConfigError>(files != nullptr, where, " has no files for the split \"", split, "\"; it has ", listed, ".",
                         near.empty() ? "" : concat(" Did you mean \"", near, "\"?"));
  } else {
    require<ConfigError>(split == "train", where,
                         " names no splits, so all of it is the split \"train\"; the task needs \"", split,
                         "\". Write data_files: {", split, ": FILE}.");
  }
  std::vector<std::string> paths;
  const Json list = files->is_array() ? *files : Json::array({*files});
  for (const Json& file : list.as_array()) {
    require<ConfigError>(file.is_string(), where, " must name files; got ", file.dump(), ".");
    require<NotSupportedError>(file.as_string().find("://") == std::string::npos, where, " must be local files; got \"",
                               file.as_string(), "\".");
    paths.push_back(local_path(task, file.as_string()));
  }
  require<ConfigError>(!paths.empty(), where, " names no file for the split \"", split, "\".");
  return paths;
}

}  // namespace

data::SourcePtr open_split(const EvalTask& task, const std::string& split) {
  const std::string where = task.where("dataset_kwargs");
  for (const auto& [key, value] : task.dataset_kwargs.as_object()) {
    const std::string near = nearest_name(key, kKwargs);
    require<ConfigError>(among(key, kKwargs) || among(key, kIgnored), where, ".", key, " is not supported.",
                         near.empty() ? "" : concat(" Did you mean \"", near, "\"?"));
  }
  data::DatasetOptions options{.split = split};
  const Json* files = task.dataset_kwargs.find("data_files");
  const Json* directory = task.dataset_kwargs.find("data_dir");
  const std::string path = local_path(task, task.dataset_path);
  const bool is_type = among(task.dataset_path, kTypes) && !fs::is_directory(path);
  if (is_type) {
    options.type = task.dataset_path;
    require<ConfigError>(files || directory, where, " must have data_files, as in data_files: {", split,
                         ": rows.jsonl}, for dataset_path: ", task.dataset_path, ".");
  } else {
    require<NotSupportedError>(fs::is_directory(path), task.where("dataset_path"),
                               " must be json, csv, parquet, arrow, text or a local directory; got \"",
                               task.dataset_path, "\". Download the data set and list its files.");
  }
  if (files) {
    options.data_files = files_of(task, *files, split);
    if (!is_type) {
      for (std::string& file : options.data_files) {
        if (const fs::path below = fs::path(path) / file; fs::exists(below)) file = below.string();
      }
    }
  } else if (directory) {
    require<ConfigError>(directory->is_string(), where, ".data_dir must be a string; got ", directory->dump(), ".");
    options.data_files = {is_type ? local_path(task, directory->as_string())
                                  : (fs::path(path) / directory->as_string()).string()};
  } else {
    options.data_files = {path};
  }
  if (const Json* by = task.dataset_kwargs.find("sample_by"); by && by->is_string())
    options.sample_by = by->as_string();
  const data::SourcePtr source = data::open_dataset(options, {});
  const bool is_csv = std::all_of(options.data_files.begin(), options.data_files.end(), [&](const std::string& file) {
    return options.type == "csv" || options.type == "tsv" || file.find(".csv") != std::string::npos;
  });
  return is_csv ? std::make_shared<NumberColumns>(source) : source;
}

std::set<std::string> fields_of(const data::Source& source) {
  std::set<std::string> fields;
  for (int64_t i = 0; i < std::min<int64_t>(source.size(), 16); ++i) {
    const Json row = source.row(i);
    for (const auto& [name, value] : row.as_object()) fields.insert(name);
  }
  return fields;
}

}  // namespace easydel

// The options of data sets and their mixture; the names are EasyDeL's.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace easydel {

// One text or several.
struct TextList : std::vector<std::string> {
  TextList() = default;
  TextList(const char* text) : TextList(std::string(text)) {}
  TextList(std::string text) { push_back(std::move(text)); }
  TextList(std::initializer_list<std::string> texts) : vector(texts) {}
  TextList(std::vector<std::string> texts) : vector(std::move(texts)) {}
};

}  // namespace easydel

namespace easydel::data {

// One data set: an "inform".
struct DatasetOptions {
  std::string dataset_name;  // a data set on the hub, or a file or directory here that comes before data_files
  // json, jsonl, csv, tsv, txt, parquet, arrow, feather; huggingface, or the id of a data set on the hub. Empty: by
  // file extension.
  std::string type;
  // Files, directories, globs ("data/*.jsonl"), "hub://user/name/path". With a data set on the hub: files in it.
  TextList data_files;
  std::string name;                // for mixture_weights; empty: the first of data_files, or the hub's id
  std::string dataset_split_name;  // a split or a subdirectory of a directory or of a data set on the hub
  std::string split = "train";  // of a directory or a data set on the hub; may be sliced: "train[:1000]", "train[10%:]"
  std::string revision = "main";   // of a data set on the hub
  std::string sample_by = "line";  // of text files: "line", or "document" for a file that is one row

  // The field to rename to text_target_field. Only it and additional_fields are kept then. A reserved field (messages,
  // prompt …) keeps its name. Empty: rows are unchanged.
  std::string content_field;
  std::vector<std::string> additional_fields;
  std::map<std::string, std::string> format_fields;  // old name -> new name; before content_field

  std::string filter_query;         // a Jinja expression of the fields as named in the file: "lang == 'en'"
  std::optional<int64_t> num_rows;  // limits the rows that pass the filter
  std::optional<double> weight;     // if not in mixture_weights; default 1
};

struct MixtureOptions {
  std::vector<DatasetOptions> informs;
  std::string cache_dir;  // where streaming = false writes decompressed files; empty: the system's temporary directory
  bool streaming = true;  // large compressed files are read in order; false: decompressed once, into a temporary file
  std::string text_target_field = "text";
  // None: no shuffling. With random access to rows the shuffle is a full one, whatever the size; Parquet files and
  // compressed ones are shuffled in windows of this many rows.
  std::optional<int64_t> shuffle_buffer_size;
  uint64_t seed = 42;

  bool block_mixture = true;  // false: round robin over the data sets, and the first that is exhausted ends the epoch
  int64_t mixture_block_size = 2048;
  // "restart" ("longest" and "all_exhausted" are the same): an epoch lasts until every row was seen, and shorter data
  // sets restart meanwhile. "first_exhausted": it ends with the first data set that has no rows left.
  std::string stop_strategy = "restart";
  std::map<std::string, double> mixture_weights;  // by name; empty: each data set's weight
};

}  // namespace easydel::data

// What a data set is made of and how several are mixed; the names are EasyDeL's.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace easydel::data {

// One data set: an "inform".
struct DatasetOptions {
  // json, jsonl, csv, tsv, txt, parquet, arrow, feather; huggingface, or the id of a data set on the hub. Empty: what
  // the names of the files say.
  std::string type;
  // Files, directories, globs ("data/*.jsonl"), "hub://user/name/path". With a data set of the hub: files inside of it.
  std::vector<std::string> data_files;
  std::string name;                // what mixture_weights calls it; empty: the first of data_files, or the hub's id
  std::string dataset_split_name;  // a split or a subdirectory of a directory or of a data set on the hub
  std::string split = "train";     // of a directory or a data set on the hub; "train[:1000]" and "train[10%:]" cut it
  std::string revision = "main";   // of a data set on the hub
  std::string sample_by = "line";  // of text files: "line", or "document" for a file that is one row

  // The field that goes on as text_target_field. Only it and additional_fields are kept then. A field that has a
  // meaning of its own (messages, prompt …) keeps its name. Empty: rows stay as they are.
  std::string content_field;
  std::vector<std::string> additional_fields;
  std::map<std::string, std::string> format_fields;  // old name -> new name; before content_field

  std::string filter_query;         // a Jinja expression of the fields as the file names them: "lang == 'en'"
  std::optional<int64_t> num_rows;  // the first so many of those that pass the filter
  std::optional<double> weight;     // when mixture_weights does not name it; 1 when no one does
};

struct MixtureOptions {
  std::vector<DatasetOptions> informs;
  std::string
      cache_dir;  // where streaming = false writes what it decompressed; empty: the system's temporary directory
  bool streaming = true;  // large compressed files are read in order; false: decompressed once, into a temporary file
  std::string text_target_field = "text";
  // None: no shuffling. Where any row can be read at any time the shuffle is a full one, whatever the size; Parquet
  // files and compressed ones are shuffled in windows of this many rows.
  std::optional<int64_t> shuffle_buffer_size;
  uint64_t seed = 42;

  bool block_mixture = true;  // false: the data sets take turns, and the first that ends ends the epoch
  int64_t mixture_block_size = 2048;
  // "restart" ("longest" and "all_exhausted" mean the same): an epoch lasts until every row was seen, and short data
  // sets begin again meanwhile. "first_exhausted": it ends with the first data set that has no row left.
  std::string stop_strategy = "restart";
  std::map<std::string, double> mixture_weights;  // by name; empty: each data set's weight
};

}  // namespace easydel::data

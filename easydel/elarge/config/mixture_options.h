// A mixture's section as the options that easydel/data takes.
#pragma once

#include <filesystem>
#include <system_error>

#include "easydel/elarge/config/sections.h"

namespace easydel {

// For data::MixtureOptions, whose names are these. A dataset_name that is a directory here is read as files.
template <class Options>
Options to_mixture_options(const MixtureSection& section) {
  Options options;
  for (const InformSection& inform : section.informs) {
    auto& set = options.informs.emplace_back();
    set.type = inform.type.value_or("");
    set.data_files = inform.data_files.values;
    if (inform.dataset_name) {
      std::error_code ignored;
      if (std::filesystem::exists(*inform.dataset_name, ignored)) {
        set.data_files.insert(set.data_files.begin(), *inform.dataset_name);
      } else if (set.type.empty()) {
        set.type = *inform.dataset_name;
      }
    }
    set.name = inform.name.value_or("");
    set.dataset_split_name = inform.dataset_split_name.value_or("");
    set.split = inform.split;
    if (inform.revision) set.revision = *inform.revision;
    if (inform.sample_by) set.sample_by = *inform.sample_by;
    set.content_field = inform.content_field.value_or("");
    set.additional_fields = inform.additional_fields;
    set.format_fields = inform.format_fields;
    if (section.tokens_field_name != "tokens") {  // what the trainers call it
      set.format_fields[section.tokens_field_name] = "tokens";
      if (set.content_field == section.tokens_field_name) set.content_field = "tokens";
    }
    set.filter_query = inform.filter_query.value_or("");
    set.num_rows = inform.num_rows;
    set.weight = inform.weight;
  }
  options.cache_dir = section.cache_dir.value_or("");
  options.streaming = section.streaming;
  options.text_target_field = section.text_target_field;
  options.shuffle_buffer_size = section.shuffle_buffer_size;
  options.block_mixture = section.block_mixture;
  options.mixture_block_size = section.mixture_block_size;
  options.stop_strategy = section.stop_strategy;
  options.mixture_weights = section.mixture_weights;
  return options;
}

}  // namespace easydel

// Output helpers for subcommands.
#pragma once

#include <string>
#include <vector>

#include "easydel/core/json/json.h"

namespace easydel::cli {

std::string version_text();

// The reader of standard output has closed the pipe: `easydel models | head -1`.
struct BrokenPipe {};

// Throws IoError if not all output could be written: a full disk must not look like success.
// BrokenPipe if it is a closed pipe.
void flush_output();

void print_json(const Json& value);  // NaN and Infinity as null

// Left-aligned columns two blanks apart; the last one is not padded.
void print_table(const std::vector<std::vector<std::string>>& rows);

// An optional part of the build: whether it is present, its purpose, and how to add it.
struct Feature {
  std::string name;
  bool present;
  std::string purpose;
  std::string how_to_add;
};
std::vector<Feature> build_features();

}  // namespace easydel::cli

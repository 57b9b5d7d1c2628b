// What subcommands print with.
#pragma once

#include <string>
#include <vector>

#include "easydel/core/json/json.h"

namespace easydel::cli {

std::string version_text();

// Who read standard output has seen enough: `easydel models | head -1`.
struct BrokenPipe {};

// Throws IoError when standard output could not take all that was written: a full disk must not look like success.
// BrokenPipe when it is a pipe that nobody reads any more.
void flush_output();

void print_json(const Json& value);  // NaN and Infinity as null

// Left-aligned columns two blanks apart; the last one is not padded.
void print_table(const std::vector<std::vector<std::string>>& rows);

// An optional part of the build: whether it is there, what for, and how to get it.
struct Feature {
  std::string name;
  bool present;
  std::string purpose;
  std::string how_to_add;
};
std::vector<Feature> build_features();

}  // namespace easydel::cli

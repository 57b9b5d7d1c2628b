// Output helpers for subcommands.
#pragma once

#include <atomic>
#include <streambuf>
#include <string>
#include <vector>

#include "easydel/core/json/json.h"

namespace easydel::cli {

std::string version_text();

// The reader of standard output has closed the pipe: `easydel models | head -1`.
struct BrokenPipe {};

// Standard output that remembers why it could not be written, which a stream does not: std::cout goes through it as
// long as it lives. It holds nothing back itself.
class StandardOutput : private std::streambuf {
 public:
  StandardOutput();
  ~StandardOutput() override;

  // Throws IoError if not all output could be written: a full disk must not look like success.
  // BrokenPipe if it is a closed pipe.
  void flush();

 private:
  int_type overflow(int_type c) override;
  std::streamsize xsputn(const char* text, std::streamsize size) override;
  int sync() override;
  void note_failure();

  std::streambuf* const to_;
  std::atomic<int> code_ = 0;  // of the first failure; 0: there was none
};

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

#include "easydel/cli/terminal/console.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iostream>

#include "easydel/core/build_info.h"
#include "easydel/core/error.h"
#include "easydel/core/json/strict_json.h"

namespace easydel::cli {

std::vector<Feature> build_features() {
  return {
      {"CUDA", EASYDEL_HAS_CUDA, "GPUs", "EASYDEL_TORCH=<a torch built for CUDA> make build"},
      {"NCCL", EASYDEL_HAS_NCCL, "collectives between GPUs", "pip install nvidia-nccl-cu13, next to torch"},
      {"MPI", EASYDEL_HAS_MPI, "ranks on several hosts", "apt-get install libopenmpi-dev openmpi-bin"},
      {"CURL", EASYDEL_HAS_CURL, "downloads from the Hugging Face hub", "apt-get install libcurl4-openssl-dev"},
      {"OPENSSL", EASYDEL_HAS_OPENSSL, "fast hashing of downloads and uploads", "apt-get install libssl-dev"},
      {"ZLIB", EASYDEL_HAS_ZLIB, "compressed torch checkpoints", "apt-get install zlib1g-dev"},
      {"PCRE2", EASYDEL_HAS_PCRE2, "regular expressions in tokenizers", "apt-get install libpcre2-dev"},
      {"UTF8PROC", EASYDEL_HAS_UTF8PROC, "Unicode normalization in tokenizers", "apt-get install libutf8proc-dev"},
      {"SENTENCEPIECE", EASYDEL_HAS_SENTENCEPIECE, "tokenizer.model files", "apt-get install libsentencepiece-dev"},
      {"EDIT", EASYDEL_HAS_EDIT, "line editing in easydel chat", "apt-get install libedit-dev"},
      {"ZSTD", EASYDEL_HAS_ZSTD, "data files compressed with zstd", "apt-get install libzstd-dev"},
      {"ARROW", EASYDEL_HAS_ARROW, "Parquet and Arrow files", "pip install pyarrow, next to torch"},
      {"YAML", EASYDEL_HAS_YAML, "easydel elarge", "apt-get install libyaml-cpp-dev"},
      {"BEAST", EASYDEL_HAS_BEAST, "the HTTP server", "apt-get install libboost-dev"},
  };
}

std::string version_text() {
  std::string features;
  for (const Feature& feature : build_features()) features += concat(" ", feature.present ? "+" : "-", feature.name);
  return concat("easydel ", EASYDEL_VERSION, " (torch ", EASYDEL_TORCH_VERSION, ", ", EASYDEL_COMPILER, ", ",
                EASYDEL_BUILD_TYPE, ")\nfeatures:", features);
}

namespace {

bool has_reader_gone() {
  pollfd out{.fd = STDOUT_FILENO, .events = POLLOUT, .revents = 0};
  return ::poll(&out, 1, 0) > 0 && (out.revents & POLLERR) != 0;
}

}  // namespace

StandardOutput::StandardOutput() : to_(std::cout.rdbuf(this)) {}

StandardOutput::~StandardOutput() { std::cout.rdbuf(to_); }

void StandardOutput::note_failure() {
  int none = 0;
  code_.compare_exchange_strong(none, errno);
}

StandardOutput::int_type StandardOutput::overflow(int_type c) {
  if (traits_type::eq_int_type(c, traits_type::eof())) return traits_type::not_eof(c);
  errno = 0;
  const int_type put = to_->sputc(traits_type::to_char_type(c));
  if (traits_type::eq_int_type(put, traits_type::eof())) note_failure();
  return put;
}

std::streamsize StandardOutput::xsputn(const char* text, std::streamsize size) {
  errno = 0;
  const std::streamsize put = to_->sputn(text, size);
  if (put < size) note_failure();
  return put;
}

int StandardOutput::sync() {
  errno = 0;
  const int status = to_->pubsync();
  if (status != 0) note_failure();
  return status;
}

void StandardOutput::flush() {
  std::cout.flush();
  if (std::cout.good()) return;
  const int code = code_;
  if (code == EPIPE || has_reader_gone()) throw BrokenPipe();
  fail<IoError>("[standard output] cannot be written", code ? concat(": ", errno_text(code)) : "", ".");
}

void print_json(const Json& value) { std::cout << dump_strict(value, 2) << "\n"; }

void print_table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i + 1 < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      out += row[i];
      if (i + 1 < row.size()) out.append(widths[i] - row[i].size() + 2, ' ');
    }
    out += '\n';
  }
  std::cout << out;
}

}  // namespace easydel::cli

// Loads a model of about 1 GiB and looks at every page of its weights, against mapping its file and looking at every
// page of that: `load_bench [DIRECTORY]`. Exits with 1 unless the ratio is at most 1.2 and the peak memory under 1.1 of
// the model.
//
// The two jobs alternate, each in a fresh process, so that a peak belongs to its job only.
// (A forked child would pay for copying its parent's pages, and the more the more it allocates.) A process does its job
// several times and the best counts: the first time also reads in the code of the library, once for any number of
// models. What the first time took is printed too.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "easydel/core/files/mapped_file.h"
#include "easydel/easydel.h"

namespace ed = easydel;
namespace fs = std::filesystem;

namespace {

constexpr const char* kFile = "model.safetensors";

struct Cost {
  double seconds = 1e30;
  double first_seconds = 1e30;  // of the first time in a process
  double peak_bytes = 0;        // above that of the bare process
};

double status_bytes(const std::string& key) {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(key + ":")) return std::stod(line.substr(key.size() + 1)) * 1024;
  }
  return 0;
}

void look_at_every_page(const void* data, std::size_t size) {
  static volatile unsigned sum = 0;  // so that the reads are made
  for (std::size_t at = 0; at < size; at += 4096) sum = sum + static_cast<const unsigned char*>(data)[at];
}

// Out of the page cache, so that the next reader waits for the disk.
void evict(const fs::path& file) {
  const int fd = ::open(file.c_str(), O_RDONLY);
  ::fdatasync(fd);
  ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  ::close(fd);
}

void write(const fs::path& directory) {
  ed::LlamaConfig config;
  config.hidden_size = 1024;
  config.intermediate_size = 4096;
  config.num_hidden_layers = 14;
  config.num_attention_heads = 16;
  config.num_key_value_heads = 16;
  config.vocab_size = 16000;
  ed::make_model<ed::LlamaForCausalLM>(config)->save_pretrained(directory, {.verbose = false});
}

void map(const fs::path& directory) {
  const auto mapped = ed::MappedFile::open(directory / kFile);
  look_at_every_page(mapped->bytes().data(), mapped->size());
}

void load(const fs::path& directory) {
  const auto model = ed::AutoModelForCausalLM::from_pretrained(directory.string(), {.verbose = false});
  for (const auto& [path, tensor] : model->params()) look_at_every_page(tensor.data_ptr(), tensor.nbytes());
}

Cost best(const Cost& a, const Cost& b) {
  return {std::min(a.seconds, b.seconds), std::min(a.first_seconds, b.first_seconds),
          std::max(a.peak_bytes, b.peak_bytes)};
}

// What a started process does: JOB DIRECTORY ROUNDS FROM_DISK.
int work(const std::string& job, const fs::path& directory, int rounds, bool from_disk) {
  const double before = status_bytes("VmRSS");
  Cost cost;
  for (int round = 0; round < rounds; ++round) {
    if (from_disk) evict(directory / kFile);
    const auto start = std::chrono::steady_clock::now();
    (job == "map" ? map : job == "load" ? load : write)(directory);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    cost = best(cost, {seconds, round == 0 ? seconds : cost.first_seconds, 0});
  }
  std::printf("%.9f %.9f %.0f\n", cost.seconds, cost.first_seconds, status_bytes("VmHWM") - before);
  return 0;
}

Cost measure(const std::string& job, const fs::path& directory, int rounds, bool from_disk) {
  const std::string self = fs::read_symlink("/proc/self/exe").string();
  const std::string command =
      ed::concat("exec '", self, "' ", job, " '", directory.string(), "' ", rounds, " ", int{from_disk});
  Cost cost;
  FILE* out = ::popen(command.c_str(), "r");
  const bool got = out && std::fscanf(out, "%lf %lf %lf", &cost.seconds, &cost.first_seconds, &cost.peak_bytes) == 3;
  const bool ended_well = out && ::pclose(out) == 0;
  ed::require<ed::Error>(got && ended_well, "[load_bench] a process could not ", job, " in ", directory.string(), ".");
  return cost;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 5) return work(argv[1], argv[2], std::stoi(argv[3]), std::stoi(argv[4]) != 0);
  const fs::path directory = fs::path(argc > 1 ? argv[1] : fs::temp_directory_path()) / "easydel-load-bench";
  measure("write", directory, 1, false);
  const double size = static_cast<double>(fs::file_size(directory / kFile));
  bool holds = true;
  std::printf("a model of %.2f GiB, each page looked at\n", size / (1 << 30));
  for (const bool from_disk : {true, false}) {
    Cost mapped, loaded;
    for (int turn = 0; turn < 8; ++turn) {
      const int rounds = from_disk ? 2 : 15;
      mapped = best(mapped, measure("map", directory, rounds, from_disk));
      loaded = best(loaded, measure("load", directory, rounds, from_disk));
    }
    const double ratio = loaded.seconds / mapped.seconds;
    const double memory = loaded.peak_bytes / size;
    holds = holds && ratio <= 1.2 && memory < 1.1;
    std::printf(
        "%-15s map %7.1f ms, from_pretrained %7.1f ms: ratio %.2f (at most 1.2), peak memory %.2f (under 1.1)\n",
        from_disk ? "from the disk:" : "in the cache:", mapped.seconds * 1e3, loaded.seconds * 1e3, ratio, memory);
    std::printf("%-15s map %7.1f ms, from_pretrained %7.1f ms\n", "  first time:", mapped.first_seconds * 1e3,
                loaded.first_seconds * 1e3);
  }
  fs::remove_all(directory);
  return holds ? 0 : 1;
}

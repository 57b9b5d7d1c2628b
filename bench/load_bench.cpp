// Loads a model of about 1 GiB and looks at every page of its weights, against mapping its file and looking at every
// page of that: `load_bench [DIRECTORY]`. Exits with 1 unless the ratio is at most 1.2 and the peak memory under 1.1 of
// the model.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "easydel/core/mapped_file.h"
#include "easydel/easydel.h"

namespace ed = easydel;
namespace fs = std::filesystem;

namespace {

struct Cost {
  double seconds = 1e30;
  double peak_bytes = 0;  // above that of the bare process
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

// In a process of its own, so that the peak is that of this job alone.
Cost measure(const std::function<void()>& job) {
  int ends[2];
  if (::pipe(ends) != 0) return {};
  if (::fork() == 0) {
    const double before = status_bytes("VmRSS");
    const auto start = std::chrono::steady_clock::now();
    job();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const Cost cost{seconds, status_bytes("VmHWM") - before};
    const bool sent = ::write(ends[1], &cost, sizeof cost) == sizeof cost;
    ::_exit(sent ? 0 : 1);
  }
  Cost cost;
  const bool got = ::read(ends[0], &cost, sizeof cost) == sizeof cost;
  ::wait(nullptr);
  ::close(ends[0]);
  ::close(ends[1]);
  return got ? cost : Cost{};
}

Cost best(const Cost& a, const Cost& b) {
  return {std::min(a.seconds, b.seconds), std::max(a.peak_bytes, b.peak_bytes)};
}

}  // namespace

int main(int argc, char** argv) {
  const fs::path directory = fs::path(argc > 1 ? argv[1] : fs::temp_directory_path()) / "easydel-load-bench";
  // Written by a child: this process must not hold a model, or its threads, when it forks.
  measure([&] {
    ed::LlamaConfig config;
    config.hidden_size = 1024;
    config.intermediate_size = 4096;
    config.num_hidden_layers = 14;
    config.num_attention_heads = 16;
    config.num_key_value_heads = 16;
    config.vocab_size = 16000;
    ed::make_model<ed::LlamaForCausalLM>(config)->save_pretrained(directory, {.verbose = false});
  });
  const fs::path file = directory / "model.safetensors";
  const double size = static_cast<double>(fs::file_size(file));

  const auto map = [&] {
    const auto mapped = ed::MappedFile::open(file);
    look_at_every_page(mapped->bytes().data(), mapped->size());
  };
  const auto load = [&] {
    const auto model = ed::AutoModelForCausalLM::from_pretrained(directory.string(), {.verbose = false});
    for (const auto& [path, tensor] : model->params()) look_at_every_page(tensor.data_ptr(), tensor.nbytes());
  };
  bool holds = true;
  std::printf("a model of %.2f GiB, each page looked at\n", size / (1 << 30));
  for (const bool from_disk : {true, false}) {
    Cost mapped, loaded;
    for (int round = 0; round < (from_disk ? 9 : 40); ++round) {
      if (from_disk) evict(file);
      mapped = best(mapped, measure(map));
      if (from_disk) evict(file);
      loaded = best(loaded, measure(load));
    }
    const double ratio = loaded.seconds / mapped.seconds;
    const double memory = loaded.peak_bytes / size;
    holds = holds && ratio <= 1.2 && memory < 1.1;
    std::printf(
        "%-15s map %7.1f ms, from_pretrained %7.1f ms: ratio %.2f (at most 1.2), peak memory %.2f (under 1.1)\n",
        from_disk ? "from the disk:" : "in the cache:", mapped.seconds * 1e3, loaded.seconds * 1e3, ratio, memory);
  }
  fs::remove_all(directory);
  return holds ? 0 : 1;
}

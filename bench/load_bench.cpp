// Loads a model of about 1 GiB and looks at every page of its weights, against mapping its file and looking at every
// page of that: `load_bench [DIRECTORY]`. Exits with 1 unless the ratio is at most 1.2 and the peak memory under 1.1 of
// the model.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "easydel/core/file.h"
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

  Cost map, load;
  for (int round = 0; round < 5; ++round) {
    map = best(round == 0 ? Cost{1e30, 0} : map, measure([&] {
                 const auto mapped = ed::MappedFile::open(file);
                 look_at_every_page(mapped->bytes().data(), mapped->size());
               }));
    load = best(round == 0 ? Cost{1e30, 0} : load, measure([&] {
                  const auto model = ed::AutoModelForCausalLM::from_pretrained(directory.string(), {.verbose = false});
                  for (const auto& [path, tensor] : model->params())
                    look_at_every_page(tensor.data_ptr(), tensor.nbytes());
                }));
  }
  fs::remove_all(directory);
  const double ratio = load.seconds / map.seconds;
  const double memory = load.peak_bytes / size;
  std::printf(
      "a model of %.2f GiB\nmap and touch    %7.1f ms\nfrom_pretrained  %7.1f ms  ratio %.2f (at most 1.2)\n"
      "peak memory      %7.2f of the model (under 1.1)\n",
      size / (1 << 30), map.seconds * 1e3, load.seconds * 1e3, ratio, memory);
  return ratio <= 1.2 && memory < 1.1 ? 0 : 1;
}

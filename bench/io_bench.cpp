// How fast a checkpoint opens and reads, against a plain read() of the same bytes in the same run.
// usage: io_bench [DIRECTORY [GIB]]
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>

#include "easydel/core/error.h"
#include "easydel/core/text/bytes.h"
#include "easydel/io/checkpoint.h"
#include "easydel/io/checkpoint_writer.h"

namespace easydel {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kTensorBytes = int64_t{32} << 20;
constexpr int64_t kPageAround = int64_t{2} << 20;   // the largest page that a system maps around a byte that is touched
constexpr int64_t kCachedBytes = int64_t{1} << 20;  // a buffer that stays in the CPU's cache: read() at its fastest
constexpr int kRounds = 7;

double seconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

int64_t status_bytes(const std::string& key) {  // VmRSS, RssAnon, RssFile
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(key + ":")) return std::stoll(line.substr(key.size() + 1)) * 1024;
  }
  return 0;
}

// What of the files' maps is in memory.
int64_t mapped_bytes(const fs::path& directory) {
  std::ifstream smaps("/proc/self/smaps");
  int64_t total = 0;
  bool ours = false;
  for (std::string line; std::getline(smaps, line);) {
    if (line.find('-') < line.find(' ')) ours = line.find(directory.string()) != std::string::npos;
    if (ours && line.starts_with("Rss:")) total += std::stoll(line.substr(4)) * 1024;
  }
  return total;
}

// Looks at every byte, with as little else as possible.
uint64_t touch(const void* data, int64_t bytes) {
  using Line = uint64_t __attribute__((vector_size(64), aligned(8)));
  const auto* lines = static_cast<const Line*>(data);
  Line sums[2] = {};
  for (int64_t i = 0; i < bytes / 64; i += 2) {
    sums[0] ^= lines[i];
    sums[1] ^= lines[i + 1];
  }
  return sums[0][0] ^ sums[1][1];
}

volatile uint64_t sink;

// So many bytes at a time, each piece into the memory that `place` has for it.
void read_files(const std::vector<fs::path>& files, int64_t piece, const std::function<void*()>& place) {
  for (const fs::path& path : files) {
    const int fd = ::open(path.c_str(), O_RDONLY);
    ssize_t got = 0;
    while ((got = ::read(fd, place(), piece)) > 0) {
    }
    ::close(fd);
    require<IoError>(fd >= 0 && got == 0, "[", path.string(), "] cannot be read.");
  }
}

void make_checkpoint(const fs::path& directory, int64_t gibibytes) {
  std::vector<TensorInfo> infos;
  for (int64_t i = 0; i < (gibibytes << 30) / kTensorBytes; ++i) {
    infos.push_back({.name = concat("model.layers.", i, ".weight"), .dtype = bfloat16, .shape = {4096, 4096}});
  }
  const at::Tensor values = at::arange(int64_t{4096} * 4096, at::kShort).view(at::kBFloat16).view({4096, 4096});
  const double write = seconds([&] {
    save_checkpoint(directory, infos, [&](const TensorInfo&) { return values; }, {.max_shard_size = "1GiB"});
  });
  std::printf("write, synced           %8.3f s  %6.2f GB/s\n", write,
              static_cast<double>(gibibytes << 30) / write / 1e9);
}

int bench(const fs::path& directory, int64_t gibibytes) {
  at::set_num_threads(1);  // as read() has only one
  make_checkpoint(directory, gibibytes);
  std::shared_ptr<const Checkpoint> checkpoint = Checkpoint::open(directory);
  std::vector<fs::path> files;
  for (const auto& file : checkpoint->files()) files.emplace_back(file->where());
  checkpoint.reset();
  // Aligned to a page: elsewhere read() takes twice as long on some CPUs.
  const std::unique_ptr<char, decltype(&std::free)> buffer(
      static_cast<char*>(std::aligned_alloc(kPageAround, kTensorBytes)), std::free);
  std::fill_n(buffer.get(), kTensorBytes, 0);
  const auto there = [&] { return buffer.get(); };
  read_files(files, kTensorBytes, there);  // from here on the files are in the page cache

  const int64_t anonymous_before = status_bytes("RssAnon"), file_before = status_bytes("RssFile");
  at::Tensor one;
  const double opening = seconds([&] {
    checkpoint = Checkpoint::open(directory);
    one = checkpoint->tensor("model.layers.7.weight");
    sink = touch(one.const_data_ptr(), kTensorBytes);
  });
  const int64_t mapped = mapped_bytes(directory);
  const int64_t anonymous = status_bytes("RssAnon") - anonymous_before;
  const int64_t code = status_bytes("RssFile") - file_before - mapped;
  std::printf("open and touch one      %8.3f s\n", opening);
  std::printf(
      "  resident: the tensor %s, pages that the system maps around its ends %s, memory of our own %s;\n"
      "  besides, code of this program that ran for the first time %s\n",
      format_bytes(kTensorBytes).c_str(), format_bytes(mapped - kTensorBytes).c_str(), format_bytes(anonymous).c_str(),
      format_bytes(code).c_str());
  one.reset();
  checkpoint.reset();

  // Each way of reading is compared with read(): the same bytes into the same kind of memory.
  at::Tensor fresh;
  const auto make_fresh = [&] {
    fresh.reset();
    fresh = at::empty({4096, 4096}, at::kBFloat16);
    return fresh.mutable_data_ptr();
  };
  const auto each_tensor = [&](const std::function<void(const Checkpoint&, const TensorInfo&)>& read) {
    const auto all = Checkpoint::open(directory);
    for (const TensorInfo& info : all->infos()) read(*all, info);
  };
  const at::Tensor copy = at::from_blob(buffer.get(), {4096, 4096}, at::kBFloat16);
  const std::pair<const char*, std::function<void()>> ways[] = {
      {"read(), 1 MiB at a time", [&] { read_files(files, kCachedBytes, there); }},
      {"map, touch every byte",
       [&] {
         each_tensor([](const Checkpoint& all, const TensorInfo& info) {
           sink = touch(all.tensor(info.name).const_data_ptr(), info.nbytes);
         });
       }},
      {"read() of whole tensors", [&] { read_files(files, kTensorBytes, there); }},
      {"copy of whole tensors",
       [&] {
         each_tensor([&](const Checkpoint& all, const TensorInfo& info) { all.copy(all.tensor(info.name), copy); });
       }},
      {"read(), fresh memory", [&] { read_files(files, kTensorBytes, make_fresh); }},
      {"read of whole tensors",
       [&] {
         each_tensor([&](const Checkpoint& all, const TensorInfo& info) {
           fresh.reset();
           fresh = all.read(info.name);
         });
       }},
  };
  std::vector<double> best(std::size(ways), 1e30);  // the least disturbed round of each
  for (int round = 0; round < kRounds; ++round) {
    for (std::size_t i = 0; i < best.size(); ++i) best[i] = std::min(best[i], seconds(ways[i].second));
  }
  bool reads_fast = true;
  for (std::size_t i = 0; i < best.size(); ++i) {
    const double ratio = best[i / 2 * 2] / best[i];
    reads_fast = reads_fast && ratio >= 0.9;
    std::printf("%-23s %8.3f s  %6.2f GB/s  ratio %.2f\n", ways[i].first, best[i],
                static_cast<double>(gibibytes << 30) / best[i] / 1e9, ratio);
  }

  const bool opens_fast = opening < 0.050;
  const bool is_small = anonymous < kPageAround / 16 && mapped <= kTensorBytes + 2 * kPageAround;
  std::printf("opens in 50 ms: %s; no more resident than the tensor and a page at each end: %s; 0.9 of read(): %s\n",
              opens_fast ? "yes" : "NO", is_small ? "yes" : "NO", reads_fast ? "yes" : "NO");
  return opens_fast && is_small && reads_fast ? 0 : 1;
}

}  // namespace
}  // namespace easydel

int main(int argc, char** argv) {
  namespace fs = std::filesystem;
  const fs::path parent = argc > 1 ? fs::path(argv[1]) : fs::temp_directory_path();
  const fs::path directory = parent / ("easydel-io-bench-" + std::to_string(::getpid()));
  int result = 1;
  try {
    result = easydel::bench(directory, argc > 2 ? std::atoll(argv[2]) : 2);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "io_bench: %s\n", error.what());
  }
  std::error_code ignored;
  fs::remove_all(directory, ignored);
  return result;
}

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

#include "easydel/core/bytes.h"
#include "easydel/core/error.h"
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

// Into memory that is there already, so many bytes at a time.
void read_files(const std::vector<fs::path>& files, char* buffer, int64_t piece) {
  for (const fs::path& path : files) {
    const int fd = ::open(path.c_str(), O_RDONLY);
    ssize_t got = 0;
    while ((got = ::read(fd, buffer, piece)) > 0) {
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

// The least disturbed round.
double best(const std::vector<double>& times) { return *std::min_element(times.begin(), times.end()); }

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
  read_files(files, buffer.get(), kTensorBytes);  // from here on the files are in the page cache

  const int64_t before = status_bytes("VmRSS");
  const int64_t anonymous_before = status_bytes("RssAnon");
  at::Tensor one;
  const double opening = seconds([&] {
    checkpoint = Checkpoint::open(directory);
    one = checkpoint->tensor("model.layers.7.weight");
    sink = touch(one.const_data_ptr(), kTensorBytes);
  });
  const int64_t resident = status_bytes("VmRSS") - before;
  const int64_t anonymous = status_bytes("RssAnon") - anonymous_before;
  std::printf("open and touch one      %8.3f s  tensor %s, resident %s, of that not shared with the page cache %s\n",
              opening, format_bytes(kTensorBytes).c_str(), format_bytes(resident).c_str(),
              format_bytes(anonymous).c_str());
  one.reset();
  checkpoint.reset();

  std::vector<double> plain;
  std::vector<double> plain_tensors;
  std::vector<double> mapped;
  std::vector<double> copied;
  for (int round = 0; round < kRounds; ++round) {
    plain.push_back(seconds([&] { read_files(files, buffer.get(), kCachedBytes); }));
    plain_tensors.push_back(seconds([&] { read_files(files, buffer.get(), kTensorBytes); }));
    mapped.push_back(seconds([&] {
      const auto all = Checkpoint::open(directory);
      for (const TensorInfo& info : all->infos()) sink = touch(all->tensor(info.name).const_data_ptr(), info.nbytes);
    }));
    copied.push_back(seconds([&] {
      const auto all = Checkpoint::open(directory);
      const at::Tensor copy = at::from_blob(buffer.get(), {4096, 4096}, at::kBFloat16);
      for (const TensorInfo& info : all->infos()) copy.copy_(all->tensor(info.name));
    }));
  }
  const auto report = [&](const char* what, double time, double of) {
    std::printf("%-23s %8.3f s  %6.2f GB/s  ratio %.2f\n", what, time,
                static_cast<double>(gibibytes << 30) / time / 1e9, of / time);
  };
  report("read(), 1 MiB at a time", best(plain), best(plain));
  report("map, touch every byte", best(mapped), best(plain));
  report("read() of whole tensors", best(plain_tensors), best(plain_tensors));
  report("map, copy whole tensors", best(copied), best(plain_tensors));

  const bool opens_fast = opening < 0.050;
  const bool is_small = anonymous < (1 << 20) && resident <= kTensorBytes + 2 * kPageAround;
  const bool reads_fast = best(plain) / best(mapped) >= 0.9;
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

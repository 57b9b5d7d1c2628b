// The kernels of one decoded token on a GPU, as a captured graph runs them: products with dense and packed weights, and
// attention over the cache. Each line: the time of one call, and the memory that is read per second.
// usage: decode_bench [attention | experts | vectors...]      (without arguments: all)
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "easydel/core/build_info.h"
#include "easydel/operations/kernels/cuda/fused.h"
#include "easydel/operations/linear/linear.h"
#include "easydel/operations/moe/moe.h"
#include "easydel/operations/quantized/packed_product.h"

#if EASYDEL_HAS_CUDA
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

namespace {

using at::Tensor;
namespace ops = easydel::operations;
using ops::PackedCodes;
using ops::PackedFormat;

// Microseconds of one call of `calls`, which f makes.
double time_of(int64_t calls, const std::function<void()>& f) {
  constexpr int kRuns = 20;
  f();
  const c10::cuda::CUDAStreamGuard guard(c10::cuda::getStreamFromPool());
  at::cuda::CUDAGraph graph;
  c10::cuda::getCurrentCUDAStream().synchronize();
  graph.capture_begin();
  f();
  graph.capture_end();
  const auto run = [&](int times) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < times; ++i) graph.replay();
    c10::cuda::getCurrentCUDAStream().synchronize();
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count() / times;
  };
  run(3);
  return run(kRuns) / static_cast<double>(calls);
}

void report(const std::string& name, double us, double bytes) {
  std::printf("%-60s %9.2f us %9.1f GB/s\n", name.c_str(), us, bytes / us * 1e-3);
}

const at::TensorOptions kHalfWidth = at::TensorOptions(at::kBFloat16).device(at::kCUDA);
constexpr double kLeastBytes = 400e6;  // of all copies together: more than a cache has

// Matrices [outs, in] of one x, in one call.
struct Maps {
  const char* name;
  int64_t in;
  std::vector<int64_t> outs;
};

void dense(const Maps& maps, int64_t vectors) {
  double bytes = 0;
  for (const int64_t out : maps.outs) bytes += static_cast<double>(2 * out * maps.in);
  const auto copies = static_cast<int64_t>(kLeastBytes / bytes) + 1;
  std::vector<std::vector<ops::LinearMap>> all;
  for (int64_t i = 0; i < copies; ++i) {
    auto& own = all.emplace_back();
    for (const int64_t out : maps.outs) own.push_back({at::randn({out, maps.in}, kHalfWidth), {}});
  }
  const Tensor x = at::randn({vectors, maps.in}, kHalfWidth);
  report(std::string(maps.name) + ", bfloat16",
         time_of(copies,
                 [&] {
                   for (const auto& own : all) ops::linears(x, own);
                 }),
         bytes);
}

void packed(const Maps& maps, int64_t vectors, const char* name, PackedFormat format, int64_t group,
            at::ScalarType scales) {
  const auto draw = [&](int64_t out) {
    PackedCodes codes;
    codes.format = format;
    const auto on_gpu = at::TensorOptions().device(at::kCUDA);
    if (format == PackedFormat::kInt8) {
      codes.codes = at::randint(-127, 128, {out, maps.in}, on_gpu.dtype(at::kChar));
      codes.scales = at::rand({out}, on_gpu) + 0.5;
    } else {
      codes.codes = at::randint(0, 256, {out, maps.in / 2}, on_gpu.dtype(at::kByte));
      codes.scales = (at::rand({out, maps.in / group}, on_gpu) + 0.5).to(scales);
    }
    return codes;
  };
  double bytes = 0;
  for (const int64_t out : maps.outs) bytes += static_cast<double>(draw(out).bytes());
  const auto copies = static_cast<int64_t>(kLeastBytes / bytes) + 1;
  std::vector<std::vector<PackedCodes>> all;
  for (int64_t i = 0; i < copies; ++i) {
    auto& own = all.emplace_back();
    for (const int64_t out : maps.outs) own.push_back(draw(out));
  }
  const Tensor x = at::randn({vectors, maps.in}, kHalfWidth);
  report(std::string(maps.name) + ", " + name,
         time_of(copies,
                 [&] {
                   for (const auto& own : all) {
                     std::vector<ops::PackedMap> given;
                     for (const PackedCodes& codes : own) given.push_back({&codes});
                     ops::packed_products(x, given);
                   }
                 }),
         bytes);
}

void attention(int64_t batch, int64_t keys, int64_t kv_heads, int64_t shared, int64_t head_size) {
  const double bytes = static_cast<double>(4 * batch * keys * kv_heads * head_size);
  const auto copies = std::min<int64_t>(64, static_cast<int64_t>(kLeastBytes / bytes) + 1);
  const int64_t capacity = keys + 128;
  const Tensor q = at::randn({batch, kv_heads * shared, head_size}, kHalfWidth);
  const Tensor k = at::randn({batch, kv_heads, head_size}, kHalfWidth);
  std::vector<ops::cuda_fused::CacheSlots> all;
  for (int64_t i = 0; i < copies; ++i) {
    all.push_back({at::randn({batch, kv_heads, capacity, head_size}, kHalfWidth),
                   at::randn({batch, kv_heads, capacity, head_size}, kHalfWidth),
                   at::full({1}, keys - 1, kHalfWidth.dtype(at::kLong)),
                   {},
                   at::zeros({batch, q.size(1)}, kHalfWidth.dtype(at::kInt)),
                   capacity,
                   0});
  }
  char name[96];
  std::snprintf(name, sizeof(name), "attention %ld x %ld keys, %ld x %ld heads of %ld", static_cast<long>(batch),
                static_cast<long>(keys), static_cast<long>(kv_heads), static_cast<long>(shared),
                static_cast<long>(head_size));
  report(name,
         time_of(copies,
                 [&] {
                   for (const auto& slots : all) ops::cuda_fused::attend_to_cache(q, k, k, slots, 0.125, 0.0);
                 }),
         bytes);
}

// Layers of a mixture of experts, whose experts are drawn anew for each.
void experts(int64_t tokens, int64_t count, int64_t top_k, int64_t width, int64_t inner) {
  const double all = static_cast<double>(6 * count * width * inner);
  const auto copies = std::max<int64_t>(2, static_cast<int64_t>(kLeastBytes / all) + 1);
  std::vector<ops::StackedExperts> stacks;
  std::vector<ops::Routing> routings;
  double bytes = 0;
  for (int64_t i = 0; i < copies; ++i) {
    stacks.push_back({at::randn({count, 2 * inner, width}, kHalfWidth), at::randn({count, width, inner}, kHalfWidth),
                      &ops::find_activation("silu")});
    const Tensor chosen = std::get<1>(at::rand({tokens, count}, kHalfWidth.dtype(at::kFloat)).topk(top_k, 1));
    routings.push_back({at::full({tokens, top_k}, 1.0 / static_cast<double>(top_k), kHalfWidth.dtype(at::kFloat)),
                        chosen.contiguous()});
    bytes += static_cast<double>(6 * width * inner * std::get<0>(at::_unique(chosen)).numel());
  }
  const Tensor x = at::randn({tokens, width}, kHalfWidth);
  char name[96];
  std::snprintf(name, sizeof(name), "%ld of %ld experts of %ld x %ld, %ld tokens", static_cast<long>(top_k),
                static_cast<long>(count), static_cast<long>(width), static_cast<long>(inner),
                static_cast<long>(tokens));
  report(name,
         time_of(copies,
                 [&] {
                   for (std::size_t i = 0; i < stacks.size(); ++i) {
                     if (ops::experts_of_few_tokens(x, routings[i], stacks[i])) continue;
                     ops::fused_experts(x, routings[i].weights, stacks[i],
                                        ops::make_dispatch(routings[i].experts, count));
                   }
                 }),
         bytes / static_cast<double>(copies));
}

}  // namespace

int main(int argc, char** argv) {
  if (!at::hasCUDA() || !ops::cuda_fused::applies(at::zeros({1}, at::kCUDA))) {
    std::puts("this needs a GPU, and a build with nvcc");
    return 0;
  }
  const at::NoGradGuard no_grad;
  std::vector<int64_t> vectors;
  bool attends = argc < 2, has_experts = argc < 2;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    attends |= word == "attention", has_experts |= word == "experts";
    if (const int64_t count = std::atoll(argv[i]); count > 0) vectors.push_back(count);
  }
  if (argc < 2) vectors = {1, 8, 16, 32, 64, 65};
  for (const int64_t count : vectors) {
    std::printf("%ld vectors\n", static_cast<long>(count));
    for (const Maps& maps : {Maps{"q k v 2048", 2048, {2048, 512, 512}}, Maps{"o 2048 x 2048", 2048, {2048}},
                             Maps{"gate up 2048", 2048, {8192, 8192}}, Maps{"down 8192", 8192, {2048}},
                             Maps{"gate up 4096", 4096, {14336, 14336}}, Maps{"head 2048", 2048, {128256}}}) {
      dense(maps, count);
      packed(maps, count, "int8", PackedFormat::kInt8, 0, at::kFloat);
      packed(maps, count, "nf4, groups of 64", PackedFormat::kNf4, 64, at::kFloat);
      packed(maps, count, "int4, groups of 32", PackedFormat::kInt4, 32, at::kHalf);
      packed(maps, count, "int4, groups of 128", PackedFormat::kInt4, 128, at::kHalf);
    }
  }
  if (has_experts)
    for (const int64_t tokens : {1, 4, 8, 32}) experts(tokens, 128, 8, 2048, 768);
  if (!attends) return 0;
  for (const int64_t keys : {128, 256, 1024, 4096, 16384, 131072}) attention(1, keys, 8, 4, 64);
  for (const int64_t keys : {128, 1024, 4096}) attention(32, keys, 8, 4, 64);
  for (const int64_t keys : {1024, 32768}) attention(1, keys, 8, 4, 128);
  attention(32, 1024, 8, 4, 128);
  attention(32, 1024, 8, 8, 128);
  attention(32, 1024, 16, 1, 256);
}

#else

int main() { std::puts("this needs a build with CUDA"); }

#endif

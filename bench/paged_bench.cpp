// Attention over pages on a GPU: time, and the memory that is read per second.
// usage: paged_bench [queries] [keys]
#include <ATen/ATen.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <optional>

#include "easydel/operations/kernels/cuda/fused.h"
#include "easydel/operations/kernels/cuda/paged/paged_attention.h"
#include "easydel/operations/quantized/coded_rows.h"

namespace {

using at::Tensor;
namespace paged = easydel::operations::cuda_paged;

// Milliseconds of one call, once the GPU is busy.
double time_of(const std::function<Tensor()>& f) {
  constexpr int kWarmUp = 10, kRuns = 100;
  Tensor last;
  for (int i = 0; i < kWarmUp; ++i) last = f();
  last.flatten()[0].item();
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kRuns; ++i) last = f();
  last.flatten()[0].item();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count() / kRuns;
}

void report(const char* name, double ms, double bytes) {
  std::printf("%-58s %9.4f ms %9.1f GB/s\n", name, ms, bytes / ms * 1e-6);
}

struct Shape {
  const char* name;
  int64_t queries, keys, kv_heads, shared, head_size, max_length;
};

void decode(const Shape& s, at::ScalarType type, bool ragged, std::optional<at::ScalarType> stored = {}) {
  constexpr int64_t kPage = 16;
  const auto options = at::TensorOptions(type).device(at::kCUDA);
  const int64_t width = (s.keys + kPage - 1) / kPage, pages = s.queries * width;
  const auto keys_of = [&] {
    return easydel::operations::to_stored(at::randn({pages, s.kv_heads, kPage, s.head_size}, options),
                                          stored.value_or(type));
  };
  const Tensor k = keys_of(), v = keys_of();
  const Tensor q = at::randn({s.queries, s.kv_heads * s.shared, s.head_size}, options);
  const Tensor table = at::randperm(pages).view({s.queries, width}).to(at::kCUDA, at::kInt);
  Tensor lengths = at::full({s.queries}, s.keys, at::kInt);
  if (ragged) lengths = at::randint(s.keys / 8, s.keys + 1, {s.queries}, at::kInt);
  const double keys = lengths.sum().item<double>();
  lengths = lengths.to(at::kCUDA);
  const double ms = time_of(
      [&] { return *paged::paged_decode(q, {k, v}, table, lengths, {.scale = 0.125, .max_length = s.max_length}); });
  char name[96];
  std::snprintf(name, sizeof(name), "decode %s %ldx%ld%s %s", s.name, static_cast<long>(s.queries),
                static_cast<long>(s.keys), ragged ? " ragged" : "", c10::toString(stored.value_or(type)));
  report(name, ms, keys * static_cast<double>(2 * s.kv_heads * k.size(3) * k.element_size()));
}

void store(int64_t tokens, bool encodes) {
  const auto options = at::TensorOptions(at::kBFloat16).device(at::kCUDA);
  const int64_t pages = (tokens + 15) / 16;
  const Tensor k_pages =
      encodes ? at::zeros({pages, 8, 16, 68}, options.dtype(at::kChar)) : at::zeros({pages, 8, 16, 64}, options);
  const Tensor v_pages = at::zeros_like(k_pages);
  const Tensor k = at::randn({tokens, 8, 64}, options), v = at::randn_like(k);
  const Tensor slots = at::randperm(pages * 16).narrow(0, 0, tokens).to(at::kCUDA).contiguous();
  char name[96];
  std::snprintf(name, sizeof(name), "store of %ld tokens, k and v [8, 64] BFloat16%s", static_cast<long>(tokens),
                encodes ? " as codes" : "");
  report(name, time_of([&] {
           paged::paged_store(k, v, slots, {k_pages, v_pages});
           return k_pages;
         }),
         static_cast<double>(2 * k.nbytes() + 2 * static_cast<std::size_t>(tokens * 8) *
                                                  static_cast<std::size_t>(k_pages.size(3) * k_pages.element_size())));
}

void largest(int64_t rows, at::ScalarType type) {
  const Tensor x = at::randn({rows, 128256}, at::TensorOptions(type).device(at::kCUDA));
  char name[96];
  std::snprintf(name, sizeof(name), "argmax [%ld, 128256] %s", static_cast<long>(rows), c10::toString(type));
  report(name, time_of([&] { return paged::argmax_rows(x); }), static_cast<double>(x.nbytes()));
  report("  torch", time_of([&] { return x.argmax(-1); }), static_cast<double>(x.nbytes()));
}

}  // namespace

int main(int argc, char** argv) {
  if (!at::hasCUDA() || !easydel::operations::cuda_fused::applies(at::zeros({1}, at::kCUDA))) {
    std::puts("this needs a GPU, and a build with nvcc");
    return 0;
  }
  const int64_t queries = argc > 1 ? std::atoll(argv[1]) : 256, keys = argc > 2 ? std::atoll(argv[2]) : 1088;
  const Shape llama_1b{"K=8 N=32 H=64", queries, keys, 8, 4, 64, keys};
  decode(llama_1b, at::kBFloat16, false);
  decode(llama_1b, at::kBFloat16, true);
  decode({"K=8 N=32 H=64, planned for 8192", queries, keys, 8, 4, 64, 8192}, at::kBFloat16, false);
  decode(llama_1b, at::kFloat, false);
  decode({"K=8 N=32 H=128", queries, keys, 8, 4, 128, keys}, at::kBFloat16, false);
  decode({"K=8 N=64 H=128", queries, keys, 8, 8, 128, keys}, at::kBFloat16, false);
  decode({"K=4 N=64 H=128", queries, keys, 4, 16, 128, keys}, at::kBFloat16, false);
  decode({"K=4 N=8 H=256", queries, keys, 4, 2, 256, keys}, at::kBFloat16, false);
  decode({"K=32 N=32 H=96", 32, 4096, 32, 1, 96, 4096}, at::kBFloat16, false);
  decode({"K=8 N=32 H=64", 1, 8192, 8, 4, 64, 8192}, at::kBFloat16, false);
  decode({"K=8 N=32 H=64", 8, 32768, 8, 4, 64, 32768}, at::kBFloat16, false);
  for (const auto stored : {at::kChar, at::kFloat8_e4m3fn, at::kFloat8_e5m2}) {
    decode(llama_1b, at::kBFloat16, false, stored);
    decode({"K=8 N=32 H=128", queries, keys, 8, 4, 128, keys}, at::kBFloat16, false, stored);
    decode({"K=8 N=32 H=64", 8, 32768, 8, 4, 64, 32768}, at::kBFloat16, false, stored);
  }
  for (const bool encodes : {false, true}) {
    store(256, encodes);
    store(8192, encodes);
  }
  for (const int64_t rows : {1, 256}) {
    largest(rows, at::kFloat);
    largest(rows, at::kBFloat16);
  }
}

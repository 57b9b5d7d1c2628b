// The products of one decoded token with packed weights against those with float32 weights, in turns in one run: every
// matrix of the generation benchmark's model once, in order, so that all of them come from memory.
// usage: quantized_bench [threads] [rounds] [vectors]
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "easydel/operations/kernels/cpu/quantized_kernels.h"
#include "easydel/operations/linear/linear.h"
#include "easydel/operations/quantized/packed_product.h"
#include "easydel/quantization/method.h"

namespace {

using at::Tensor;
namespace ops = easydel::operations;
using ops::Activations;
using ops::PackedCodes;
using ops::PackedFormat;

constexpr int64_t kHidden = 576, kInner = 1536, kLayers = 30, kQuery = 576, kKeyValue = 192, kVocabulary = 49152;

// Matrices that share their x stand together.
struct Step {
  int64_t in;
  std::vector<int64_t> outs;
};
std::vector<Step> steps() {
  std::vector<Step> all;
  for (int64_t i = 0; i < kLayers; ++i) {
    all.push_back({kHidden, {kQuery, kKeyValue, kKeyValue}});
    all.push_back({kQuery, {kHidden}});
    all.push_back({kHidden, {kInner, kInner}});
    all.push_back({kInner, {kHidden}});
  }
  all.push_back({kHidden, {kVocabulary}});
  return all;
}

PackedCodes random_codes(PackedFormat format, int64_t out, int64_t in, int64_t group, at::ScalarType scales) {
  PackedCodes codes;
  codes.format = format;
  if (format == PackedFormat::kInt8) {
    codes.codes = at::randint(-127, 128, {out, in}, at::kChar);
    codes.scales = at::rand({out}) + 0.5;
    return codes;
  }
  codes.codes = at::randint(0, 256, {out, in / 2}, at::kByte);
  if (scales == at::kByte) {
    codes.scales = at::randint(0, 256, {out, in / group}, at::kByte);
    codes.scale_map = at::rand({256});
    codes.outer_scales = at::rand({(out * in / group + 255) / 256});
    codes.scale_offset = at::zeros({1});
  } else {
    codes.scales = (at::rand({out, in / group}) + 0.5).to(scales);
  }
  return codes;
}

struct Variant {
  std::string name;
  std::function<void(std::size_t step)> run;
  double bytes = 0;
  std::vector<double> best = {};  // seconds of each step

  double seconds() const { return std::accumulate(best.begin(), best.end(), 0.0); }
};

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 2, rounds = argc > 2 ? std::atoi(argv[2]) : 30;
  const int64_t vectors = argc > 3 ? std::atoi(argv[3]) : 1;
  at::set_num_threads(threads);
  at::manual_seed(0);
  const at::NoGradGuard no_grad;
  const std::vector<Step> all = steps();
  const Tensor x576 = at::randn({vectors, kHidden}), x1536 = at::randn({vectors, kInner});
  const auto x_of = [&](const Step& step) { return step.in == kHidden ? x576 : x1536; };

  std::vector<Variant> variants;
  {
    auto weights = std::make_shared<std::vector<std::vector<ops::LinearMap>>>();
    double bytes = 0;
    for (const Step& step : all) {
      auto& maps = weights->emplace_back();
      for (const int64_t out : step.outs) {
        maps.push_back({at::randn({out, step.in}), {}});
        bytes += static_cast<double>(out * step.in * 4);
      }
    }
    variants.push_back({"float32", [&, weights](std::size_t i) { ops::linears(x_of(all[i]), (*weights)[i]); }, bytes});
  }
  const auto add = [&](const std::string& name, PackedFormat format, int64_t group, at::ScalarType scales,
                       std::vector<std::pair<std::string, Activations>> ways) {
    auto weights = std::make_shared<std::vector<std::vector<PackedCodes>>>();
    double bytes = 0;
    for (const Step& step : all) {
      auto& group_of = weights->emplace_back();
      for (const int64_t out : step.outs) {
        group_of.push_back(random_codes(format, out, step.in, group, scales));
        bytes += static_cast<double>(group_of.back().bytes());
      }
    }
    for (const auto& [suffix, way] : ways) {
      variants.push_back({name + suffix,
                          [&, weights, way = way](std::size_t i) {
                            std::vector<ops::PackedMap> maps;
                            for (const PackedCodes& codes : (*weights)[i]) maps.push_back({&codes});
                            ops::packed_products(x_of(all[i]), maps, way);
                          },
                          bytes});
    }
  };
  const std::vector<std::pair<std::string, Activations>> every = {{"", Activations::kFloat},
                                                                  {", x int8 per token", Activations::kInt8PerToken},
                                                                  {", x int8 per group", Activations::kInt8PerGroup}};
  add("int8", PackedFormat::kInt8, 0, at::kFloat, every);
  add("int4, groups of 32", PackedFormat::kInt4, 32, at::kHalf, every);
  add("int4, groups of 64", PackedFormat::kInt4, 64, at::kHalf, every);
  add("nf4, groups of 64", PackedFormat::kNf4, 64, at::kFloat, {{"", Activations::kFloat}});
  add("nf4, double quantized", PackedFormat::kNf4, 64, at::kByte, {{"", Activations::kFloat}});

  // Published files' codes, and the same matrices dequantized for each product.
  const auto add_file_codes = [&](const std::string& name, const easydel::QuantizeOptions& settings) {
    using easydel::quantization::LocalShard;
    const auto method = easydel::quantization::make_method(settings);
    auto weights = std::make_shared<std::vector<std::vector<LocalShard>>>();
    double bytes = 0;
    for (const Step& step : all) {
      auto& group_of = weights->emplace_back();
      for (const int64_t out : step.outs) {
        LocalShard held{.parts = method->quantize(at::randn({out, step.in}), nullptr), .out = out, .in = step.in};
        held.rows = {{0, out}};
        held.columns = {{0, step.in}};
        for (const Tensor& part : held.parts) bytes += static_cast<double>(part.nbytes());
        group_of.push_back(std::move(held));
      }
    }
    variants.push_back({name,
                        [&, weights, method](std::size_t i) {
                          for (const LocalShard& held : (*weights)[i]) method->multiply(x_of(all[i]), held);
                        },
                        bytes});
    variants.push_back({name + ", dequantized",
                        [&, weights, method](std::size_t i) {
                          for (const LocalShard& held : (*weights)[i]) method->Method::multiply(x_of(all[i]), held);
                        },
                        bytes});
  };
  add_file_codes("uint4, groups of 64", {.method = "uint4", .group_size = 64});
  add_file_codes("mxfp4", {.method = "mxfp4"});
  add_file_codes("fp8, rows", {.method = "fp8"});
  add_file_codes("fp8, groups of 64", {.method = "fp8", .group_size = 64});

  // The best of each step, added up: another process that takes a core for a while leaves no trace.
  using Clock = std::chrono::steady_clock;
  for (Variant& variant : variants) variant.best.assign(all.size(), 1e30);
  for (int round = 0; round < rounds; ++round) {
    for (Variant& variant : variants) {
      for (std::size_t i = 0; i < all.size(); ++i) {
        const auto start = Clock::now();
        variant.run(i);
        variant.best[i] = std::min(variant.best[i], std::chrono::duration<double>(Clock::now() - start).count());
      }
    }
  }
  std::printf("%s, %d threads, %lld vectors, best of %d\n", ops::kernels::quantized().instruction_set, threads,
              static_cast<long long>(vectors), rounds);
  std::printf("%-38s %8s %8s %8s %8s\n", "products of one token", "MB", "ms", "GB/s", "ratio");
  for (const Variant& variant : variants) {
    std::printf("%-38s %8.1f %8.2f %8.1f %8.2f\n", variant.name.c_str(), variant.bytes / 1e6, variant.seconds() * 1e3,
                variant.bytes / variant.seconds() / 1e9, variants[0].seconds() / variant.seconds());
  }
}

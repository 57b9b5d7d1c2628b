#include "easydel/operations/quantized/packed_product.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>

#include "easydel/core/error.h"
#include "easydel/operations/kernels/cpu/amx/tile_product.h"
#include "easydel/operations/kernels/cuda/packed_weights.h"
#include "easydel/operations/linear/product.h"
#include "easydel/operations/quantized/arguments.h"
#include "easydel/operations/threading/parallel.h"

namespace easydel::operations {
namespace {

using at::Tensor;

constexpr int64_t kActivationGroup = 64;

bool is_int8(const PackedCodes& weight) { return weight.format == PackedFormat::kInt8; }

// Groups of a row of x that have their own scale.
int64_t x_groups(const PackedCodes& weight, Activations activations) {
  if (!is_int8(weight)) return weight.scales.size(1);
  return activations == Activations::kInt8PerGroup && weight.in() % kActivationGroup == 0
             ? weight.in() / kActivationGroup
             : 1;
}

// x in the formats that the kernels read, each computed once.
class Prepared {
 public:
  Prepared(const Tensor& x, Activations activations)
      : x_(x.scalar_type() == at::kFloat && x.is_contiguous() ? x : x.to(at::kFloat).contiguous()),
        rows_(x.numel() / x.size(-1)),
        activations_(activations) {}

  void put_into(kernels::PackedArgs& args, const PackedCodes& weight) {
    args.vectors = rows_;
    if (activations_ == Activations::kFloat) {
      args.x = (weight.format == PackedFormat::kNf4 ? parted() : x_).const_data_ptr<float>();
      return;
    }
    const Rounded& rounded = round(weight);
    args.x_codes = rounded.codes.const_data_ptr<int8_t>();
    args.x_scales = rounded.scales.const_data_ptr<float>();
    args.x_starts = rounded.starts.const_data_ptr<int32_t>();
    args.x_groups = rounded.scales.size(1);
  }

  int64_t rows() const { return rows_; }

  // The rounded x as float32 [rows, in].
  Tensor values(const PackedCodes& weight) {
    const Tensor flat = x_.view({rows_, x_.size(-1)});
    if (activations_ == Activations::kFloat) return flat;
    const Rounded& rounded = round(weight);
    const Tensor grouped = rounded.codes.to(at::kFloat).view({rows_, rounded.scales.size(1), -1});
    return (grouped * rounded.scales.unsqueeze(-1)).view({rows_, x_.size(-1)});
  }

 private:
  struct Rounded {
    Tensor codes, scales, starts;
  };

  const Tensor& parted() {
    if (!parted_.defined()) {
      parted_ = at::empty_like(x_);
      kernels::quantized().part_pairs(x_.const_data_ptr<float>(), parted_.mutable_data_ptr<float>(), x_.numel());
    }
    return parted_;
  }

  const Rounded& round(const PackedCodes& weight) {
    const int64_t groups = x_groups(weight, activations_);
    const auto [found, is_new] = rounded_.try_emplace({is_int8(weight), groups});
    Rounded& rounded = found->second;
    if (!is_new) return rounded;
    const int64_t width = x_.size(-1);
    // One scale for all of a vector: written for each group, as the kernels read them.
    const bool per_token = activations_ == Activations::kInt8PerToken;
    rounded = {at::empty({rows_, width}, at::kChar), at::empty({rows_, groups}, at::kFloat),
               at::empty({rows_, groups}, at::kInt)};
    kernels::QuantizeArgs args;
    args.x = x_.const_data_ptr<float>();
    args.width = width;
    args.groups = groups;
    args.for_nibbles = !is_int8(weight);
    args.one_scale = per_token;
    args.codes = rounded.codes.mutable_data_ptr<int8_t>();
    args.scales = rounded.scales.mutable_data_ptr<float>();
    args.starts = rounded.starts.mutable_data_ptr<int32_t>();
    for_rows(rows_, width, [&](int64_t begin, int64_t end) { kernels::quantized().quantize_rows(args, begin, end); });
    return rounded;
  }

  Tensor x_, parted_;
  int64_t rows_;
  Activations activations_;
  std::map<std::pair<bool, int64_t>, Rounded> rounded_;
};

using Kernel = void (*)(const kernels::PackedArgs&, int64_t, int64_t, float*);

Kernel kernel_for(const PackedCodes& weight, Activations activations) {
  const kernels::QuantizedKernels& table = kernels::quantized();
  if (activations == Activations::kFloat) return is_int8(weight) ? table.int8_times_float : table.nibbles_times_float;
  return is_int8(weight) ? table.int8_times_int8 : table.nibbles_times_int8;
}

struct Job {
  kernels::PackedArgs args;
  Kernel kernel;
  int64_t rows, rows_per_piece, end;  // `end` counts pieces, those of earlier jobs too

  void run(int64_t piece, float* scratch) const {
    const int64_t pieces = (rows + rows_per_piece - 1) / rows_per_piece;
    const int64_t begin = (piece - (end - pieces)) * rows_per_piece;
    kernel(args, begin, std::min(rows, begin + rows_per_piece), scratch);
  }
};

void run(at::ArrayRef<Job> jobs, std::size_t scratch_floats) {
  const int64_t count = jobs.back().end;
  const int64_t threads = std::min<int64_t>({at::get_num_threads(), count, StealingRange::kMaxThreads});
  StealingRange pieces(count, threads);
  at::parallel_for(0, threads, 1, [&](int64_t first, int64_t last) {
    thread_local std::vector<float> scratch;
    if (scratch.size() < scratch_floats) scratch.resize(scratch_floats);
    for (int64_t own = first; own < last; ++own) {
      pieces.take(own, [&](int64_t piece) {
        const auto job = std::find_if(jobs.begin(), jobs.end(), [&](const Job& j) { return piece < j.end; });
        job->run(piece, scratch.data());
      });
    }
  });
}

// y float32 [rows, out] of each map, in one loop over the rows of all.
void multiply_few(Prepared& x, const std::vector<PackedMap>& maps, const std::vector<Tensor>& biases,
                  const std::vector<Tensor>& results, Activations activations) {
  constexpr int64_t kPieceBytes = 16 << 10;
  // That the kernels of several vectors unpack at a time.
  const int64_t panel_rows = activations == Activations::kFloat ? 24 : 32;
  const int64_t vectors = x.rows();
  c10::SmallVector<Job, 3> jobs;
  int64_t pieces = 0, scratch = 0;
  for (std::size_t i = 0; i < maps.size(); ++i) {
    const PackedCodes& weight = *maps[i].weight;
    const int64_t rows = weight.out();
    int64_t rows_per_piece = std::max<int64_t>(1, kPieceBytes / weight.codes.size(1));
    if (vectors > 1) rows_per_piece = (rows_per_piece + panel_rows - 1) / panel_rows * panel_rows;
    pieces += (rows + rows_per_piece - 1) / rows_per_piece;
    Job job{arguments_of(weight), kernel_for(weight, activations), rows, rows_per_piece, pieces};
    x.put_into(job.args, weight);
    job.args.y = results[i].mutable_data_ptr<float>();
    job.args.y_row = rows;
    job.args.bias = biases[i].defined() ? biases[i].const_data_ptr<float>() : nullptr;
    scratch = std::max(scratch, rows_per_piece * job.args.scales.groups);
    jobs.push_back(job);
  }
  if (pieces > 0) run(jobs, static_cast<std::size_t>(scratch));
}

// The tiles of AMX take codes whose values are bfloat16 without rounding.
bool can_multiply_in_tiles(const PackedCodes& weight, int64_t rows, Activations activations) {
  constexpr int64_t kFewestVectors = 8;  // with fewer, reading the codes takes longer than multiplying them
  return kernels::tile_kernels() && rows >= kFewestVectors && activations == Activations::kFloat &&
         weight.format != PackedFormat::kNf4 && weight.in() % kernels::kTileDepth == 0 && !weight.scale_map.defined();
}

// x [rows, in] as the tiles read it.
Tensor split_for_tiles(const Tensor& x) {
  const int64_t vectors = x.size(0), width = x.size(1), block = kernels::tile_block(vectors);
  const int64_t blocks = (vectors + block - 1) / block, size = kernels::tile_block_size(vectors, width);
  const Tensor parts = at::empty({blocks * size}, at::kShort);
  auto* to = reinterpret_cast<uint16_t*>(parts.mutable_data_ptr<int16_t>());
  for_units(static_cast<std::size_t>(blocks), [&](std::size_t unit) {
    const auto index = static_cast<int64_t>(unit);
    kernels::tile_kernels()->split(x.const_data_ptr<float>(), vectors, width, index, to + index * size);
  });
  return parts;
}

void multiply_in_tiles(const Tensor& parts, int64_t vectors, const PackedCodes& weight, const Tensor& bias,
                       const Tensor& y) {
  constexpr int64_t kPieceElements = 256 << 10;  // of widened weights: with x's block they stay in the second cache
  const Tensor scales = weight.scales.to(at::kFloat).contiguous();
  kernels::TileProduct product;
  product.codes = weight.codes.const_data_ptr();
  product.are_nibbles = !is_int8(weight);
  product.scales = scales.const_data_ptr<float>();
  product.groups = is_int8(weight) ? 1 : scales.size(1);
  product.bias = bias.defined() ? bias.const_data_ptr<float>() : nullptr;
  product.parts = reinterpret_cast<const uint16_t*>(parts.const_data_ptr<int16_t>());
  product.y = y.mutable_data_ptr<float>();
  product.rows = product.y_row = weight.out();
  product.width = weight.in();
  product.vectors = vectors;
  constexpr int64_t kPanel = kernels::kTilePanel;
  const int64_t panels = (weight.out() + kPanel - 1) / kPanel, threads = at::get_num_threads();
  const int64_t in_cache = std::max<int64_t>(1, kPieceElements / (kPanel * weight.in()));
  const int64_t per_piece = std::clamp<int64_t>((panels + threads - 1) / threads, 1, in_cache);
  for_units(static_cast<std::size_t>((panels + per_piece - 1) / per_piece), [&](std::size_t unit) {
    thread_local std::vector<uint16_t> widened;
    widened.resize(static_cast<std::size_t>(per_piece * kPanel * weight.in()));
    const int64_t begin = static_cast<int64_t>(unit) * per_piece * kPanel;
    kernels::tile_kernels()->multiply(product, begin, std::min(weight.out(), begin + per_piece * kPanel),
                                      widened.data());
  });
}

// Some rows of the matrix at a time, so that unpacked rows stay in cache.
void multiply_many(const Tensor& x, const PackedCodes& weight, const Tensor& bias, const Tensor& y) {
  constexpr int64_t kTileElements = 1 << 20;
  const int64_t rows = std::clamp<int64_t>(kTileElements / weight.in(), 1, std::max<int64_t>(1, weight.out()));
  const Tensor tile = at::empty({rows, weight.in()}, at::kFloat);
  for (int64_t begin = 0; begin < weight.out(); begin += rows) {
    const int64_t count = std::min(rows, weight.out() - begin);
    unpack_into(weight, begin, begin + count, tile.mutable_data_ptr<float>());
    y.narrow(1, begin, count)
        .copy_(dense_product(x, tile.narrow(0, 0, count), bias.defined() ? bias.narrow(0, begin, count) : Tensor()));
  }
}

void check(const Tensor& x, const PackedMap& map, Activations activations) {
  const PackedCodes& weight = *map.weight;
  weight.check();
  require<ShapeError>(can_multiply_packed(x, weight), "[packed_product] x must be Float, BFloat16 or Half on ",
                      weight.codes.is_cpu() ? "the CPU" : "the codes' GPU, which must have kernels for them", "; got ",
                      c10::toString(x.scalar_type()), " on ", x.device(), ".");
  require<NotSupportedError>(activations == Activations::kFloat || x.is_cpu(),
                             "[packed_product] int8 activations are supported on the CPU only.");
  require<ShapeError>(x.dim() >= 1 && x.size(-1) == weight.in(), "[packed_product] x's last dimension must be ",
                      weight.in(), "; got ", x.sizes(), ".");
  require<ShapeError>(!map.bias.defined() || (map.bias.dim() == 1 && map.bias.size(0) == weight.out()),
                      "[packed_product] bias must be [", weight.out(), "]; got ",
                      map.bias.defined() ? map.bias.sizes() : at::IntArrayRef{}, ".");
  require<NotSupportedError>(activations == Activations::kFloat || weight.format != PackedFormat::kNf4,
                             "[packed_product] nf4 weights support float activations only.");
  require<ShapeError>(activations == Activations::kFloat || weight.in() <= kernels::kLongestRow,
                      "[packed_product] int8 activations support rows of at most ", kernels::kLongestRow, "; got ",
                      weight.in(), ".");
}

}  // namespace

bool can_multiply_packed(const Tensor& x, const PackedCodes& weight) {
  return x.device() == weight.codes.device() && (x.is_cpu() || cuda_packed::applies(weight)) &&
         (x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16 || x.scalar_type() == at::kHalf);
}

Activations activations_without_gradient(const PackedCodes& weight) {
  const bool rounds =
      weight.format == PackedFormat::kInt4 && weight.codes.is_cpu() && weight.in() <= kernels::kLongestRow;
  return rounds ? Activations::kInt8PerGroup : Activations::kFloat;
}

std::vector<Tensor> packed_products(const Tensor& x, const std::vector<PackedMap>& maps, Activations activations) {
  for (const PackedMap& map : maps) check(x, map, activations);
  if (x.is_cuda()) return cuda_packed::multiply(x.detach(), maps);
  std::vector<Tensor> results, biases;
  for (const PackedMap& map : maps) {
    at::DimVector shape(x.sizes());
    shape.back() = map.weight->out();
    results.push_back(at::empty(shape, at::kFloat));
    biases.push_back(map.bias.defined() ? map.bias.detach().to(at::kFloat).contiguous() : Tensor());
  }
  const auto as_x = [&](std::vector<Tensor>& all) {
    if (x.scalar_type() != at::kFloat)
      for (Tensor& y : all) y = y.to(x.scalar_type());
    return std::move(all);
  };
  if (maps.empty() || x.numel() == 0) return as_x(results);
  Prepared prepared(x.requires_grad() ? x.detach() : x, activations);
  const int64_t rows = x.numel() / x.size(-1);
  const kernels::QuantizedKernels& table = kernels::quantized();
  std::vector<PackedMap> few;
  std::vector<Tensor> few_biases, few_results;
  Tensor parts;
  for (std::size_t i = 0; i < maps.size(); ++i) {
    const PackedCodes& weight = *maps[i].weight;
    const bool is_rounded = activations != Activations::kFloat && !is_int8(weight);
    if (can_multiply_in_tiles(weight, rows, activations)) {
      if (!parts.defined()) parts = split_for_tiles(prepared.values(weight));
      multiply_in_tiles(parts, rows, weight, biases[i], results[i]);
    } else if (rows <= (is_rounded ? table.most_rounded_vectors : table.most_vectors)) {
      few.push_back(maps[i]);
      few_biases.push_back(biases[i]);
      few_results.push_back(results[i]);
    } else {
      multiply_many(prepared.values(weight), weight, biases[i], results[i].view({rows, weight.out()}));
    }
  }
  if (!few.empty()) multiply_few(prepared, few, few_biases, few_results, activations);
  return as_x(results);
}

Tensor packed_product(const Tensor& x, const PackedCodes& weight, const Tensor& bias, Activations activations) {
  return packed_products(x, {{&weight, bias}}, activations)[0];
}

}  // namespace easydel::operations

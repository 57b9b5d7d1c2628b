#include "easydel/operations/attention/decode_layer.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <initializer_list>

#include "easydel/core/error.h"
#include "easydel/operations/attention/attend_parts.h"
#include "easydel/operations/kernels/cpu/dispatch.h"
#include "easydel/operations/quantized/arguments.h"
#include "easydel/operations/threading/parallel.h"

#if defined(_OPENMP)
#include <omp.h>
#endif

namespace easydel::operations {
namespace {

constexpr int64_t kPieceBytes = 16 << 10;

int64_t row_bytes(const DecodeMap& map) {
  return map.packed ? map.packed->codes.size(1) : map.width * static_cast<int64_t>(sizeof(float));
}

// How the maps of one stage read their x.
enum class Form : uint8_t { kPlain, kPairs, kCodes };
Form form_of(const DecodeMap& map) {
  if (!map.packed) return Form::kPlain;
  if (activations_without_gradient(*map.packed) == Activations::kInt8PerGroup) return Form::kCodes;
  return map.packed->format == PackedFormat::kNf4 ? Form::kPairs : Form::kPlain;
}
int64_t groups_of(const DecodeMap& map) { return form_of(map) == Form::kCodes ? map.packed->scales.size(1) : 1; }

bool read_alike(std::initializer_list<const DecodeMap*> maps) {
  const DecodeMap& first = **maps.begin();
  return std::all_of(maps.begin(), maps.end(), [&](const DecodeMap* map) {
    return map->rows > 0 && map->width == first.width && form_of(*map) == form_of(first) &&
           groups_of(*map) == groups_of(first);
  });
}

// x in the form that a stage's maps read, each thread with its own.
struct Input {
  const float* x = nullptr;
  const int8_t* codes = nullptr;
  const float* scales = nullptr;
  const int32_t* starts = nullptr;
};

// Thread-local memory that is reused for the next layer.
struct Scratch {
  std::vector<float> normed, formed, scales, group_scales, attended, query;
  std::vector<int8_t> codes;
  std::vector<int32_t> starts;

  template <class T>
  static T* room(std::vector<T>& of, int64_t count) {
    if (static_cast<int64_t>(of.size()) < count) of.resize(static_cast<std::size_t>(count));
    return of.data();
  }
};
thread_local Scratch own_scratch;

Input formed(const DecodeMap& map, const float* x, Scratch& scratch) {
  const kernels::QuantizedKernels& table = kernels::quantized();
  Input input{.x = x};
  if (form_of(map) == Form::kPairs) {
    float* parted = Scratch::room(scratch.formed, map.width);
    table.part_pairs(x, parted, map.width);
    input.x = parted;
  } else if (form_of(map) == Form::kCodes) {
    kernels::QuantizeArgs args;
    args.x = x;
    args.width = map.width;
    args.groups = groups_of(map);
    args.for_nibbles = true;
    args.codes = Scratch::room(scratch.codes, map.width);
    args.scales = Scratch::room(scratch.scales, args.groups);
    args.starts = Scratch::room(scratch.starts, args.groups);
    table.quantize_rows(args, 0, 1);
    input = {x, args.codes, args.scales, args.starts};
  }
  return input;
}

// A map with its x and its y.
class Product {
 public:
  Product(const DecodeMap& map, const Input& input, float* y)
      : dense_{map.dense, input.x, map.bias, y, map.width, 1, map.rows} {
    if (!map.packed) return;
    const kernels::QuantizedKernels& table = kernels::quantized();
    packed_ = arguments_of(*map.packed);
    packed_.vectors = 1;
    packed_.y = y;
    packed_.y_row = map.rows;
    packed_.bias = map.bias;
    packed_.x = input.x;
    packed_.x_codes = input.codes;
    packed_.x_scales = input.scales;
    packed_.x_starts = input.starts;
    packed_.x_groups = groups_of(map);
    const bool is_int8 = map.packed->format == PackedFormat::kInt8;
    kernel_ = input.codes ? table.nibbles_times_int8 : is_int8 ? table.int8_times_float : table.nibbles_times_float;
  }

  void rows(int64_t begin, int64_t end, Scratch& scratch) const {
    if (!kernel_) return kernels::active().float32.gemv(dense_, begin, end);
    kernel_(packed_, begin, end, Scratch::room(scratch.group_scales, (end - begin) * packed_.scales.groups));
  }

 private:
  kernels::GemvArgs dense_;
  kernels::PackedArgs packed_;
  decltype(kernels::QuantizedKernels::int8_times_float) kernel_ = nullptr;
};

// The rows of some maps, split into pieces.
struct RowPieces {
  RowPieces(std::initializer_list<const DecodeMap*> maps, int64_t threads)
      : rows_per_piece(std::max<int64_t>(8, kPieceBytes / row_bytes(**maps.begin()))),
        counts(cut(maps)),
        pieces(counts[2], threads) {}

  // Calls f(map, first row, last row) for the pieces that this thread takes.
  template <class F>
  void take(int64_t thread, std::initializer_list<const DecodeMap*> maps, const F& f) {
    pieces.take(thread, [&](int64_t piece) {
      std::size_t which = 0;
      while (piece >= counts[which]) ++which;
      const int64_t begin = (piece - (which > 0 ? counts[which - 1] : 0)) * rows_per_piece;
      f(which, begin, std::min((*(maps.begin() + which))->rows, begin + rows_per_piece));
    });
  }

 private:
  std::array<int64_t, 3> cut(std::initializer_list<const DecodeMap*> maps) const {
    std::array<int64_t, 3> ends{};
    int64_t all = 0;
    for (std::size_t i = 0; i < ends.size(); ++i) {
      if (i < maps.size()) all += ((*(maps.begin() + i))->rows + rows_per_piece - 1) / rows_per_piece;
      ends[i] = all;
    }
    return ends;
  }
  int64_t rows_per_piece;
  std::array<int64_t, 3> counts;
  StealingRange pieces;
};

class LayerRun {
 public:
  LayerRun(const DecodeLayer& layer, const float* x, float* y, int64_t threads)
      : layer_(layer),
        x_(x),
        y_(y),
        threads_(threads),
        group_(layer.heads / layer.kv_heads),
        splits_(attend_splits(layer.span.end - layer.span.begin, layer.kv_heads, threads)),
        barrier_(threads),
        projections_({&layer.q, &layer.k, &layer.v}, threads),
        out_({&layer.out}, threads),
        gates_({&layer.gate}, threads),
        down_({&layer.down}, threads) {
    const int64_t hidden = layer.out.rows, inner = layer.gate.rows, values = layer.heads * layer.head_dim;
    thread_local std::vector<float> memory;
    float* at =
        Scratch::room(memory, layer.q.rows + layer.k.rows + layer.v.rows + splits_ * values + hidden + 3 * inner);
    const auto next = [&](int64_t count) { return std::exchange(at, at + count); };
    projected_ = {next(layer.q.rows), next(layer.k.rows), next(layer.v.rows)};
    sums_ = next(splits_ * values);
    stream_ = next(hidden);
    gate_ = next(inner);
    up_ = next(inner);
    inner_ = next(inner);
    thread_local std::vector<AttendPart<float>> parts;
    const auto count = static_cast<std::size_t>(layer.kv_heads * splits_);
    if (parts.size() < count) parts.resize(count);
    parts_ = parts.data();
  }

  // Called once by every thread of the region.
  void run(int64_t thread) {
    Scratch& scratch = own_scratch;
    project(thread, scratch);
    barrier_.wait();
    for (int64_t task = thread; task < layer_.kv_heads * splits_; task += threads_) attend(task, scratch);
    barrier_.wait();
    add_to_stream(thread, layer_.out, out_, attended(scratch), x_, stream_, scratch);
    barrier_.wait();
    gate(thread, scratch);
    barrier_.wait();
    add_to_stream(thread, layer_.down, down_, inner_, stream_, y_, scratch);
  }

 private:
  static const float* normed(const DecodeNorm& norm, const float* x, int64_t width, Scratch& scratch) {
    float* y = Scratch::room(scratch.normed, width);
    float rstd = 0;
    kernels::active().float32.rms_norm_forward({x, norm.weight, width, norm.eps, false}, y, &rstd, 0, 1);
    return y;
  }

  void project(int64_t thread, Scratch& scratch) {
    const auto maps = {&layer_.q, &layer_.k, &layer_.v};
    const float* x = normed(layer_.before_attention, x_, layer_.q.width, scratch);
    const Input input = formed(layer_.q, x, scratch);
    const Product products[] = {
        {layer_.q, input, projected_[0]}, {layer_.k, input, projected_[1]}, {layer_.v, input, projected_[2]}};
    projections_.take(thread, maps, [&](std::size_t which, int64_t begin, int64_t end) {
      products[which].rows(begin, end, scratch);
    });
  }

  // A key/value head with its queries, over one part of the keys. The last part also stores the new key and value.
  void attend(int64_t task, Scratch& scratch) {
    const int64_t split = task % splits_, head = task / splits_, size = layer_.head_dim;
    float* q = Scratch::room(scratch.query, group_ * size);
    rotate(projected_[0] + head * group_ * size, group_, q);
    if (split == splits_ - 1) {
      const int64_t slot = layer_.span.end - 1;
      rotate(projected_[1] + head * size, 1, row_of(layer_.keys.k, head, slot));
      std::memcpy(row_of(layer_.keys.v, head, slot), projected_[2] + head * size,
                  static_cast<std::size_t>(size) * sizeof(float));
    }
    const kernels::AttendArgs args{.heads = group_,
                                   .k_size = size,
                                   .v_size = size,
                                   .k_stride = layer_.keys.k.stride(2),
                                   .v_stride = layer_.keys.v.stride(2),
                                   .scale = layer_.scale,
                                   .softcap = layer_.softcap};
    AttendPart<float>& part = parts_[task];
    part.clear(group_);
    float* sums = sums_ + task * group_ * size;
    std::fill_n(sums, group_ * size, 0.0F);
    const int64_t count = layer_.span.end - layer_.span.begin, capacity = layer_.keys.k.size(2);
    const int64_t end = layer_.span.begin + count * (split + 1) / splits_;
    for (int64_t slot = layer_.span.begin + count * split / splits_; slot < end;) {
      const int64_t run = std::min(end - slot, capacity - slot % capacity);
      kernels::active().float32.attend_run(args, q, row_of(layer_.keys.k, head, slot),
                                           row_of(layer_.keys.v, head, slot), run, part.maximum, part.sum, sums);
      slot += run;
    }
  }

  float* row_of(const at::Tensor& keys, int64_t head, int64_t slot) const {
    const int64_t capacity = keys.size(2);
    const int64_t block = layer_.span.blocks ? layer_.span.blocks[slot / capacity] : layer_.span.ring;
    return keys.mutable_data_ptr<float>() + block * keys.stride(0) + head * keys.stride(1) +
           slot % capacity * keys.stride(2);
  }

  void rotate(const float* from, int64_t heads, float* to) const {
    const int64_t size = layer_.head_dim;
    if (!layer_.rope) {
      std::memcpy(to, from, static_cast<std::size_t>(heads * size) * sizeof(float));
      return;
    }
    kernels::RotaryArgs args{};
    args.x = from;
    args.x_batch = args.x_token = heads * size;
    args.x_head = size;
    args.y = to;
    args.tokens = 1;
    args.heads = heads;
    args.head_size = size;
    args.cos = layer_.rope->cos.const_data_ptr<float>();
    args.sin = layer_.rope->sin.const_data_ptr<float>();
    args.half = layer_.rope->cos.size(-1);
    args.interleaved = layer_.rope_style == RopeStyle::Interleaved;
    kernels::active().float32.rotary(args, 0, 1);
  }

  const float* attended(Scratch& scratch) const {
    const int64_t size = layer_.head_dim;
    float* all = Scratch::room(scratch.attended, layer_.heads * size);
    for (int64_t head = 0; head < layer_.heads; ++head) {
      const int64_t first = head / group_ * splits_;
      merge_parts(parts_ + first, splits_, sums_ + first * group_ * size, group_ * size, head % group_, size,
                  all + head * size);
    }
    return all;
  }

  void add_to_stream(int64_t thread, const DecodeMap& map, RowPieces& pieces, const float* x, const float* before,
                     float* after, Scratch& scratch) const {
    const Product product(map, formed(map, x, scratch), after);
    pieces.take(thread, {&map}, [&](std::size_t, int64_t begin, int64_t end) {
      product.rows(begin, end, scratch);
      for (int64_t row = begin; row < end; ++row) after[row] += before[row];
    });
  }

  void gate(int64_t thread, Scratch& scratch) {
    const float* x = normed(layer_.before_mlp, stream_, layer_.gate.width, scratch);
    const Input input = formed(layer_.gate, x, scratch);
    const Product gate(layer_.gate, input, gate_), up(layer_.up, input, up_);
    const auto& table = kernels::active().float32;
    const auto kernel = layer_.act->gated == GatedKernel::Silu ? table.silu_gate_forward : table.gelu_tanh_gate_forward;
    gates_.take(thread, {&layer_.gate}, [&](std::size_t, int64_t begin, int64_t end) {
      gate.rows(begin, end, scratch);
      up.rows(begin, end, scratch);
      kernel({gate_ + begin, up_ + begin, 0, 0, end - begin}, inner_ + begin, 0, 1);
    });
  }

  const DecodeLayer& layer_;
  const float* const x_;
  float* const y_;
  const int64_t threads_, group_, splits_;
  SpinBarrier barrier_;
  RowPieces projections_, out_, gates_, down_;
  std::array<float*, 3> projected_ = {};
  float *sums_ = nullptr, *stream_ = nullptr, *gate_ = nullptr, *up_ = nullptr, *inner_ = nullptr;
  AttendPart<float>* parts_ = nullptr;
};

}  // namespace

const char* decode_obstacle(const DecodeLayer& l) {
  if (!read_alike({&l.q, &l.k, &l.v}) || !read_alike({&l.gate, &l.up}))
    return "weights that share an input are packed in different ways";
  if (!read_alike({&l.out}) || !read_alike({&l.down}) || l.gate.rows != l.up.rows) return "the weights do not fit";
  if (!l.act || l.act->gated == GatedKernel::None) return "the activation has no fused kernel";
  if (l.kv_heads <= 0 || l.heads % l.kv_heads != 0) return "the query heads are not a multiple of the key/value heads";
  if (l.heads / l.kv_heads > kernels::kMaxSharedHeads) return "too many query heads share a key/value head";
  if (l.head_dim > kernels::kMaxHeadDim) return "the heads are too large";
  if (l.span.begin >= l.span.end) return "there are no keys to attend to";
  return nullptr;
}

at::Tensor decode_layer(const at::Tensor& x, const DecodeLayer& layer) {
  require<ShapeError>(x.is_cpu() && x.scalar_type() == at::kFloat && x.is_contiguous() && x.numel() == layer.q.width &&
                          !decode_obstacle(layer),
                      "[decode_layer] x must be one token of ", layer.q.width, " float32 on the CPU; got ", x.sizes(),
                      " of ", c10::toString(x.scalar_type()), ".");
  at::Tensor y = at::empty(x.sizes(), x.options());
  const float* from = x.const_data_ptr<float>();
  float* to = y.mutable_data_ptr<float>();
#if defined(_OPENMP)
  const int64_t threads =
      at::in_parallel_region() ? 1 : std::min<int64_t>(at::get_num_threads(), StealingRange::kMaxThreads);
  if (threads > 1) {
    std::optional<LayerRun> run;
#pragma omp parallel num_threads(static_cast<int>(threads))
    {
      // There may be fewer threads than requested.
#pragma omp single
      run.emplace(layer, from, to, omp_get_num_threads());
      run->run(omp_get_thread_num());
    }
    return y;
  }
#endif
  LayerRun(layer, from, to, 1).run(0);
  return y;
}

}  // namespace easydel::operations

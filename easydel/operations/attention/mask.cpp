#include "easydel/operations/attention/mask.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>
#include <mutex>
#include <set>
#include <vector>

#include "easydel/core/error.h"
#include "easydel/core/memory.h"

namespace easydel {
namespace {

using at::Tensor;

void require_shape(const char* name, const Tensor& tensor, int64_t batch, int64_t length) {
  if (!tensor.defined()) return;
  require<ShapeError>(tensor.dim() == 2 && (tensor.size(0) == batch || tensor.size(0) == 1) && tensor.size(1) == length,
                      "[MaskInfo] ", name, " must be [", batch, ", ", length, "]; got ", tensor.sizes(), ".");
  require<ShapeError>(!tensor.is_floating_point(), "[MaskInfo] ", name, " must be of a bool or integer type; got ",
                      dtype_name(tensor.scalar_type()), ".");
}

bool all_equal(const Tensor& t) { return t.numel() == 0 || t.eq(t.flatten()[0]).all().item<bool>(); }

// Identifies a tensor's current content: the same memory, not changed since. Inference tensors have no version counter.
struct Snapshot {
  Tensor tensor;
  int64_t version = 0;

  static Snapshot of(const Tensor& t) { return {t, t.defined() && !t.is_inference() ? t._version() : 0}; }
  bool still_is(const Tensor& t) const {
    if (!t.defined() || !tensor.defined()) return t.defined() == tensor.defined();
    return t.is_same(tensor) && !t.is_inference() && t._version() == version;
  }
};

}  // namespace

class MaskMemory {
 public:
  struct Key {
    bool causal;
    int64_t sliding_window;
    std::optional<int64_t> q_offset;
    int64_t queries, keys;
    at::Device device;
    DType dtype;  // bool, the additive type, or uint8 for blind queries
    bool operator==(const Key&) const = default;
  };

  template <class Make>
  Tensor get(const Key& key, const MaskInfo& mask, const Make& make) {
    return get_from(matrices_, key, mask, make);
  }
  // These depend on the tensors alone.
  template <class Make>
  std::shared_ptr<const Documents> get_documents(const Key& key, const MaskInfo& mask, const Make& make) {
    return get_from(documents_, key, mask, make);
  }

 private:
  static constexpr std::size_t kMaxEntries = 4;
  template <class Value>
  struct Entry {
    Key key;
    std::vector<Snapshot> inputs;
    Value value;
  };

  template <class Value, class Make>
  Value get_from(std::vector<Entry<Value>>& entries, const Key& key, const MaskInfo& mask, const Make& make) {
    const Tensor* const tensors[] = {&mask.padding_mask, &mask.q_segment_ids, &mask.kv_segment_ids, &mask.q_positions,
                                     &mask.explicit_mask};
    const std::lock_guard lock(mutex_);
    for (const Entry<Value>& entry : entries) {
      if (!(entry.key == key)) continue;
      bool same = true;
      for (std::size_t i = 0; i < std::size(tensors); ++i) same = same && entry.inputs[i].still_is(*tensors[i]);
      if (same) return entry.value;
    }
    if (entries.size() >= kMaxEntries) entries.erase(entries.begin());
    Entry<Value>& entry = entries.emplace_back(Entry<Value>{key, {}, make()});
    for (const Tensor* tensor : tensors) entry.inputs.push_back(Snapshot::of(*tensor));
    return entry.value;
  }

  std::mutex mutex_;
  std::vector<Entry<Tensor>> matrices_;
  std::vector<Entry<std::shared_ptr<const Documents>>> documents_;
};

std::shared_ptr<MaskMemory> MaskInfo::make_memory() { return std::make_shared<MaskMemory>(); }

void MaskInfo::validate(int64_t batch, int64_t queries, int64_t keys) const {
  require<ConfigError>(sliding_window >= 0, "[MaskInfo] sliding_window must not be negative; got ", sliding_window,
                       ".");
  require_shape("padding_mask", padding_mask, batch, keys);
  require_shape("q_segment_ids", q_segment_ids, batch, queries);
  require_shape("kv_segment_ids", kv_segment_ids, batch, keys);
  require_shape("q_positions", q_positions, batch, queries);
  require<ShapeError>(!kv_segment_ids.defined() || q_segment_ids.defined(),
                      "[MaskInfo] kv_segment_ids need q_segment_ids; got none.");
  require<ShapeError>(!q_segment_ids.defined() || kv_segment_ids.defined() || queries == keys,
                      "[MaskInfo] without kv_segment_ids there must be as many keys as queries; got ", queries,
                      " queries and ", keys, " keys. Set kv_segment_ids.");
  if (explicit_mask.defined()) {
    const auto fits = [&](int64_t d, int64_t size) {
      return explicit_mask.size(d) == size || explicit_mask.size(d) == 1;
    };
    require<ShapeError>(explicit_mask.dim() == 4 && explicit_mask.scalar_type() == at::kBool && fits(0, batch) &&
                            fits(2, queries) && fits(3, keys),
                        "[MaskInfo] explicit_mask must be bool and broadcast to [", batch, ", heads, ", queries, ", ",
                        keys, "]; got ", dtype_name(explicit_mask.scalar_type()), " ", explicit_mask.sizes(), ".");
  }
}

MaskInfo MaskInfo::simplified() const {
  MaskInfo out = *this;
  if (out.padding_mask.defined() && out.padding_mask.ne(0).all().item<bool>()) out.padding_mask.reset();
  if (out.q_segment_ids.defined()) {
    const Tensor& keys = out.kv_segment_ids.defined() ? out.kv_segment_ids : out.q_segment_ids;
    const bool one_segment = all_equal(out.q_segment_ids) && all_equal(keys) && out.q_segment_ids.numel() > 0 &&
                             out.q_segment_ids.flatten()[0].equal(keys.flatten()[0]) &&
                             out.q_segment_ids.flatten()[0].item<int64_t>() >= 0;
    if (one_segment) {
      out.q_segment_ids.reset();
      out.kv_segment_ids.reset();
    }
  }
  return out;
}

MaskInfo MaskInfo::slice(int64_t queries, int64_t keys, int64_t q_begin, int64_t q_count, int64_t k_begin,
                         int64_t k_count) const {
  const auto narrow = [](const Tensor& t, int64_t dim, int64_t begin, int64_t count) {
    return !t.defined() || t.size(dim) == 1 ? t : t.narrow(dim, begin, count);
  };
  MaskInfo out;
  out.causal = causal;
  out.sliding_window = sliding_window;
  out.padding_mask = narrow(padding_mask, 1, k_begin, k_count);
  if (q_segment_ids.defined()) {
    out.q_segment_ids = q_segment_ids.narrow(1, q_begin, q_count);
    out.kv_segment_ids = (kv_segment_ids.defined() ? kv_segment_ids : q_segment_ids).narrow(1, k_begin, k_count);
  }
  if (q_positions.defined()) {
    out.q_positions = q_positions.narrow(1, q_begin, q_count) - k_begin;
  } else {
    out.q_offset = first_slot(queries, keys) + q_begin - k_begin;
  }
  if (explicit_mask.defined()) {
    out.explicit_mask = narrow(narrow(explicit_mask, 2, q_begin, q_count), 3, k_begin, k_count);
  }
  return out;
}

bool MaskInfo::sees_everything(int64_t queries, int64_t keys) const {
  if (padding_mask.defined() || q_segment_ids.defined() || explicit_mask.defined()) return false;
  if (q_positions.defined()) return !causal && sliding_window == 0;
  const int64_t first = first_slot(queries, keys), last = first + queries - 1;
  if (causal && first < keys - 1) return false;
  if (sliding_window == 0) return true;
  return last < sliding_window && (causal || keys - first <= sliding_window);
}

bool MaskInfo::is_plain_causal(int64_t queries, int64_t keys) const {
  return causal && queries == keys && first_slot(queries, keys) == 0 && !padding_mask.defined() &&
         !q_segment_ids.defined() && !q_positions.defined() && !explicit_mask.defined() &&
         (sliding_window == 0 || sliding_window >= keys);
}

MaskInfo::KeyRange MaskInfo::key_range(int64_t queries, int64_t keys, int64_t q_begin, int64_t q_count) const {
  if (q_positions.defined()) return {0, keys};
  const int64_t first = first_slot(queries, keys) + q_begin, last = first + q_count - 1;
  int64_t begin = 0, end = keys;
  if (sliding_window > 0) begin = first - sliding_window + 1;
  if (causal) {
    end = last + 1;
  } else if (sliding_window > 0) {
    end = last + sliding_window;
  }
  begin = std::clamp<int64_t>(begin, 0, keys);
  return {begin, std::clamp<int64_t>(end, begin, keys)};
}

Tensor MaskInfo::to_bool(int64_t queries, int64_t keys, at::Device device) const {
  const MaskMemory::Key key{causal, sliding_window, q_offset, queries, keys, device, boolean};
  return memory->get(key, *this, [&] {
    const auto options = at::TensorOptions().device(device).dtype(at::kLong);
    const Tensor k_slot = at::arange(keys, options).view({1, 1, 1, keys});
    const Tensor q_slot = q_positions.defined()
                              ? q_positions.to(options).view({-1, 1, queries, 1})
                              : (at::arange(queries, options) + first_slot(queries, keys)).view({1, 1, queries, 1});
    Tensor visible;
    const auto require_also = [&](const Tensor& condition) {
      visible = visible.defined() ? visible.logical_and(condition) : condition;
    };
    if (causal) require_also(k_slot <= q_slot);
    if (sliding_window > 0) {
      require_also(k_slot > q_slot - sliding_window);
      if (!causal) require_also(k_slot < q_slot + sliding_window);
    }
    if (padding_mask.defined()) require_also(padding_mask.to(device).ne(0).view({-1, 1, 1, keys}));
    if (q_segment_ids.defined()) {
      const Tensor q_ids = q_segment_ids.to(device).view({-1, 1, queries, 1});
      const Tensor k_ids =
          (kv_segment_ids.defined() ? kv_segment_ids : q_segment_ids).to(device).view({-1, 1, 1, keys});
      require_also(q_ids.eq(k_ids).logical_and_(k_ids.ge(0)));
    }
    if (explicit_mask.defined()) require_also(explicit_mask.to(device));
    if (!visible.defined()) return at::ones({1, 1, queries, keys}, options.dtype(at::kBool));
    return visible.expand({visible.size(0), visible.size(1), queries, keys}).contiguous();
  });
}

Tensor MaskInfo::to_additive(int64_t queries, int64_t keys, at::Device device, DType dtype) const {
  const Tensor visible = to_bool(queries, keys, device);
  const MaskMemory::Key key{causal, sliding_window, q_offset, queries, keys, device, dtype};
  return memory->get(key, *this, [&] {
    return at::zeros(visible.sizes(), visible.options().dtype(dtype))
        .masked_fill_(visible.logical_not(), -std::numeric_limits<double>::infinity());
  });
}

Tensor MaskInfo::blind_queries(int64_t queries, int64_t keys, at::Device device) const {
  const bool is_own_key_seen = !padding_mask.defined() && !q_segment_ids.defined() && !explicit_mask.defined() &&
                               !q_positions.defined() && first_slot(queries, keys) >= 0 &&
                               first_slot(queries, keys) + queries <= keys;
  if (is_own_key_seen) return {};
  const Tensor visible = to_bool(queries, keys, device);
  const MaskMemory::Key key{causal, sliding_window, q_offset, queries, keys, device, uint8};
  return memory->get(key, *this, [&] { return visible.any(-1, /*keepdim=*/true).logical_not_(); });
}

namespace {

// Where documents begin among the tokens of all rows; false if one is in several pieces.
class DocumentFinder {
 public:
  // A row's document numbers, negative for padding.
  bool add_row(const int64_t* ids, int64_t tokens) {
    std::set<int64_t> ended;
    for (int64_t from = 0, to = 0; from < tokens; from = to) {
      while (to < tokens && ids[to] == ids[from]) ++to;
      const bool is_padding = ids[from] < 0;
      if (!is_padding && !ended.insert(ids[from]).second) return false;
      // Nobody looks at what padding sees, so that is little.
      for (int64_t at = from; at < to; at += is_padding ? kPaddingTokens : to - from) begin(row_begin_ + at);
      longest_ = std::max(longest_, is_padding ? std::min(to - from, kPaddingTokens) : to - from);
    }
    row_begin_ += tokens;
    return true;
  }
  const std::vector<int32_t>& begins() {
    begins_.push_back(static_cast<int32_t>(row_begin_));
    return begins_;
  }
  int64_t longest() const { return longest_; }

 private:
  static constexpr int64_t kPaddingTokens = 128;
  void begin(int64_t token) { begins_.push_back(static_cast<int32_t>(token)); }
  std::vector<int32_t> begins_;
  int64_t row_begin_ = 0, longest_ = 0;
};

}  // namespace

std::shared_ptr<const Documents> MaskInfo::documents(int64_t batch, int64_t queries, int64_t keys,
                                                     at::Device device) const {
  if (queries != keys || first_slot(queries, keys) != 0 || q_positions.defined() || explicit_mask.defined() ||
      kv_segment_ids.defined() || (!q_segment_ids.defined() && !padding_mask.defined()))
    return nullptr;
  const MaskMemory::Key key{causal, 0, q_offset, queries, keys, device, int32};
  return memory->get_documents(key, *this, [&]() -> std::shared_ptr<const Documents> {
    const auto on_host = [&](const Tensor& t) { return t.to(at::kCPU, at::kLong).expand({batch, queries}); };
    Tensor ids = q_segment_ids.defined() ? on_host(q_segment_ids) : at::zeros({batch, queries}, at::kLong);
    if (padding_mask.defined()) ids = ids.masked_fill(on_host(padding_mask).eq(0), -1);
    ids = ids.clamp_min(-1).contiguous();
    DocumentFinder finder;
    for (int64_t row = 0; row < batch; ++row) {
      if (!finder.add_row(ids.const_data_ptr<int64_t>() + row * queries, queries)) return nullptr;
    }
    auto documents = std::make_shared<Documents>();
    documents->begins = copy_to(at::tensor(finder.begins(), at::kInt), device);
    documents->longest = finder.longest();
    const Tensor hidden = ids.lt(0);
    if (hidden.any().item<bool>()) documents->hidden = copy_to(hidden, device);
    return documents;
  });
}

}  // namespace easydel

#include "easydel/optim/share.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <mutex>
#include <unordered_map>

namespace easydel::optim {
namespace {

// On the CPU: float32 sums of short rows, then float64; this many rows at a time.
constexpr int64_t kRow = 512, kRows = 512;

Intervals minus(const Intervals& from, const Intervals& taken) {
  Intervals left = from;
  for (const Interval& t : taken) {
    if (t.size() == 0) continue;
    Intervals next;
    for (const Interval& i : left) {
      if (const Interval before{i.begin, std::min(i.end, t.begin)}; before.size() > 0) next.push_back(before);
      if (const Interval after{std::max(i.begin, t.end), i.end}; after.size() > 0) next.push_back(after);
    }
    left = std::move(next);
  }
  return left;
}

void add_squares(const at::Tensor& sum, const at::Tensor& tensor) {
  if (tensor.numel() == 0) return;
  const bool narrow = tensor.scalar_type() == at::kHalf || tensor.scalar_type() == at::kBFloat16;
  const auto dtype = narrow ? std::optional(at::kFloat) : std::nullopt;
  const auto add = [&](const at::Tensor& rows) {
    const at::Tensor norms = at::linalg_vector_norm(rows, 2, at::IntArrayRef{1}, /*keepdim=*/false, dtype);
    const at::Tensor wide = norms.to(at::kDouble);
    sum.add_(wide.dot(wide));
  };
  // In memory order: a transposed matrix, as gradients of weights may be, is not copied.
  const bool dense = tensor.is_non_overlapping_and_dense();
  const at::Tensor flat = dense ? tensor.as_strided({tensor.numel()}, {1}) : tensor;
  if (!tensor.is_cpu() || !dense) {
    const at::Tensor norm = at::linalg_vector_norm(flat, 2, std::nullopt, /*keepdim=*/false, dtype).to(at::kDouble);
    sum.addcmul_(norm, norm);
    return;
  }
  const int64_t whole = flat.numel() / kRow * kRow;
  for (int64_t begin = 0; begin < whole; begin += kRow * kRows) {
    add(flat.narrow(0, begin, std::min(kRow * kRows, whole - begin)).view({-1, kRow}));
  }
  if (whole < flat.numel()) add(flat.narrow(0, whole, flat.numel() - whole).unsqueeze(0));
}

at::Tensor sum_of_squares(const at::Tensor& tensor, const Share* share) {
  const at::Tensor sum = at::zeros({}, tensor.options().dtype(at::kDouble).requires_grad(false));
  if (!share || (share->counts && share->counts_all_it_stores)) {
    add_squares(sum, tensor);
  } else if (share->counts) {
    for_boxes(share->counted, [&](const std::vector<Interval>& box) {
      at::Tensor part = tensor;
      for (std::size_t d = 0; d < box.size(); ++d) {
        part = part.narrow(static_cast<int64_t>(d), box[d].begin, box[d].size());
      }
      add_squares(sum, part);
    });
  }
  return sum;
}

}  // namespace

Share::Share(const WeightSharding& sharding) {
  const Mesh& mesh = sharding.parallel().mesh().mesh();
  const int64_t rank = sharding.parallel().mesh().rank();
  const Slices& stored = sharding.stored();
  AxisNames named;
  for (std::size_t d = 0; d < stored.size(); ++d) {
    AxisNames over;
    for (const std::string& axis : sharding.spec().axes(d)) {
      if (mesh.size(axis) > 1) over.push_back(axis);
    }
    int64_t size = 0;
    Intervals mine = stored[d];
    bool earlier = true;
    for (const int64_t member : mesh.group(over, rank)) {
      const Intervals held = member == rank ? stored[d] : sharding.stored(member)[d];
      for (const Interval& interval : held) size = std::max(size, interval.end);
      if (member == rank) earlier = false;
      if (earlier) mine = minus(mine, held);
    }
    counts_all_it_stores &= mine == stored[d];
    counted.push_back(locate(mine, stored[d]));
    shape.push_back(size);
    named = with(named, over);
    axes.push_back(std::move(over));
  }
  for (const MeshAxis& axis : mesh.axes()) {
    if (!contains(named, axis.name)) counts &= mesh.coordinate(axis.name, rank) == 0;
  }
}

int64_t Share::numel() const { return c10::multiply_integers(shape); }

std::shared_ptr<const Share> share_of(const std::shared_ptr<const WeightSharding>& sharding) {
  struct Known {
    std::weak_ptr<const WeightSharding> sharding;
    std::shared_ptr<const Share> share;
  };
  static std::mutex mutex;
  static std::unordered_map<const WeightSharding*, Known> known;
  if (!sharding) return nullptr;
  {
    const std::lock_guard lock(mutex);
    const auto found = known.find(sharding.get());
    if (found != known.end() && found->second.sharding.lock() == sharding) return found->second.share;
  }
  auto share = std::make_shared<const Share>(*sharding);
  const std::lock_guard lock(mutex);
  std::erase_if(known, [](const auto& entry) { return entry.second.sharding.expired(); });
  known[sharding.get()] = {sharding, share};
  return share;
}

std::vector<int64_t> whole_shape(const at::Tensor& part, const std::shared_ptr<const WeightSharding>& sharding) {
  return sharding ? sharding->shape() : part.sizes().vec();
}

at::Tensor sum_over(const at::Tensor& part, int64_t dim, const std::shared_ptr<const WeightSharding>& sharding) {
  if (!sharding) return part.sum(dim, /*keepdim=*/true);
  const auto share = share_of(sharding);
  const auto d = static_cast<std::size_t>(dim);
  at::Tensor sum;
  for (const Interval& i : share->counted[d]) {
    const at::Tensor term = part.narrow(dim, i.begin, i.size()).sum(dim, /*keepdim=*/true);
    sum = sum.defined() ? sum.add_(term) : term;
  }
  if (!sum.defined()) sum = part.narrow(dim, 0, 0).sum(dim, /*keepdim=*/true);
  sum = sum.contiguous();
  if (!share->axes[d].empty()) sharding->parallel().group(share->axes[d]).all_reduce(sum);
  return sum;
}

void all_reduce(const at::Tensor& tensor, const Placement& placement) {
  if (placement.parallel && !placement.parallel->is_single()) placement.parallel->everyone().all_reduce(tensor);
}

at::Tensor sums_of_squares(const std::vector<std::string>& paths, const Tensors& tensors, const Placement& placement) {
  if (tensors.empty()) return at::zeros({0}, at::kDouble);
  const bool first = !placement.parallel || placement.parallel->mesh().rank() == 0;
  Tensors sums;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto share = share_of(sharding_of(placement, paths[i]));
    at::Tensor sum = share || first ? sum_of_squares(tensors[i], share.get())
                                    : at::zeros({}, tensors[i].options().dtype(at::kDouble).requires_grad(false));
    sums.push_back(sum.to(tensors[0].device()));
  }
  return at::stack(sums);
}

}  // namespace easydel::optim

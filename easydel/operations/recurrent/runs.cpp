#include "easydel/operations/recurrent/runs.h"

#include <ATen/ATen.h>

namespace easydel::operations {
namespace {

int64_t tokens_missing(int64_t tokens, int64_t chunk) { return (chunk - tokens % chunk) % chunk; }

}  // namespace

at::Tensor document_runs(const at::Tensor& ids) {
  if (ids.size(1) == 0) return ids.to(at::kLong);
  const int64_t later = ids.size(1) - 1;
  const at::Tensor begins = ids.narrow(1, 1, later).ne(ids.narrow(1, 0, later)).to(at::kLong);
  return at::constant_pad_nd(begins, {1, 0}).cumsum(1);
}

ChunkRuns chunk_runs(const at::Tensor& runs, int64_t chunk) {
  if (!runs.defined()) return {};
  const at::Tensor by_chunk = runs.unflatten(1, {-1, chunk});
  const at::Tensor last = by_chunk.select(2, chunk - 1);  // [B, n]
  const at::Tensor before = at::cat({runs.narrow(1, 0, 1), last.narrow(1, 0, last.size(1) - 1)}, 1);
  return {by_chunk.unsqueeze(3).eq(by_chunk.unsqueeze(2)), by_chunk.eq(before.unsqueeze(2)),
          by_chunk.eq(last.unsqueeze(2)), last.eq(before)};
}

at::Tensor fill_chunks(const at::Tensor& x, int64_t chunk) {
  const int64_t zeros = tokens_missing(x.size(1), chunk);
  if (zeros == 0) return x;
  std::vector<int64_t> pad(static_cast<std::size_t>(2 * (x.dim() - 1)), 0);
  pad.back() = zeros;
  return at::constant_pad_nd(x, pad);
}

at::Tensor fill_run_chunks(const at::Tensor& runs, int64_t chunk) {
  if (!runs.defined()) return runs;
  const int64_t tokens = runs.size(1), more = tokens_missing(tokens, chunk);
  return more == 0 ? runs : at::cat({runs, runs.narrow(1, tokens - 1, 1).expand({runs.size(0), more})}, 1);
}

}  // namespace easydel::operations

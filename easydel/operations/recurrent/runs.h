// Documents that are packed in one row, for operations that carry a state from token to token.
#pragma once

#include <ATen/core/Tensor.h>

namespace easydel::operations {

// [B, T] int64: how many documents have begun in a row before each token's own, from segment ids [B, T].
at::Tensor document_runs(const at::Tensor& segment_ids);

// Which tokens of chunks belong together. Letters: B batch, n chunks, l tokens of a chunk.
struct ChunkRuns {
  at::Tensor same;       // [B, n, l, l]: of one document
  at::Tensor continues;  // [B, n, l]: of the document that the chunk before ended with
  at::Tensor ends;       // [B, n, l]: of the document that the chunk ends with
  at::Tensor through;    // [B, n]: the whole chunk is of the document that the chunk before ended with

  bool defined() const { return same.defined(); }
};
// runs [B, n * l] as document_runs gives them, or undefined, which gives undefined masks.
ChunkRuns chunk_runs(const at::Tensor& runs, int64_t chunk);

// x [B, T, …] with zeros behind it, up to a multiple of `chunk`; runs are filled with the last one.
at::Tensor fill_chunks(const at::Tensor& x, int64_t chunk);
at::Tensor fill_run_chunks(const at::Tensor& runs, int64_t chunk);

}  // namespace easydel::operations

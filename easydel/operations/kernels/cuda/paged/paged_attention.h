// Attention over pages of keys and values on a GPU, and what goes with it: storing new tokens, gathering the keys of
// sequences, and the largest logit of each row. No gradients, and no call waits for the device.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

// Letters: P pages, C tokens of a page (a power of two), K key/value heads, N query heads, H head size of q and k, V of
// v, Q queries, T tokens, R sequences, M pages of the longest sequence.
namespace easydel::operations::cuda_paged {

// Slot s of sequence r is in page table[r][s / C], at s % C. Rows of a page are dense; v may be a view of k. Of the
// queries' type, 8-bit floats, or int8: rows of codes as of quantized/coded_rows.h, of a multiple of four features.
struct Pages {
  at::Tensor k;  // [P, K, C, H]
  at::Tensor v;  // [P, K, C, V]
};

// Stores k [T, K, H] and v [T, K, V] in slots [T], int64: page * C + offset, or negative for a token that is not
// stored. Of a latent cache, whose v is a view of k, leave v undefined. Floats are encoded for pages of codes. False
// where there is no kernel for such tensors.
bool paged_store(const at::Tensor& k_TKH, const at::Tensor& v_TKV, const at::Tensor& slots, const Pages& pages);

struct DecodeOptions {
  double scale = 1.0;
  double softcap = 0;  // 0: none
  int64_t window = 0;  // keys that a query sees, counting its own; 0: all
  at::Tensor sinks;    // [N] or undefined
  // No sequence is longer. Only the split into thread blocks depends on it: a captured call is right for all lengths
  // up to the width of its table, and fastest near this one.
  int64_t max_length = 0;
};
// The newest token of each sequence: q [Q, N, H], table [Q, M] int32, lengths [Q] int32 with the new token, 0 for a row
// that is padding and gets zeros. [Q, N, V] of q's type; nullopt where there is no kernel for such tensors.
std::optional<at::Tensor> paged_decode(const at::Tensor& q_QNH, const Pages& pages, const at::Tensor& table,
                                       const at::Tensor& lengths, const DecodeOptions& options);

// Slots [0, cu_lengths[r + 1] - cu_lengths[r]) of each sequence r, one after the other: [total, K, width], of `pages`
// [P, K, C, width]. table [R, M] and cu_lengths [R + 1] are int32; total is the last of cu_lengths. `type` is that of
// the pages; rows of codes and of 8-bit floats can also be had as floats.
at::Tensor gather_pages(const at::Tensor& pages, const at::Tensor& table, const at::Tensor& cu_lengths, int64_t total,
                        at::ScalarType type);

struct Prefill {
  at::Tensor q;                  // [T, N, H]: the new tokens of sequence r are cu_q[r] … cu_q[r + 1] - 1
  at::Tensor k, v;               // [T, K, H], likewise, and already stored in their pages
  at::Tensor cu_q, cu_k;         // [R + 1] int32; cu_k counts all keys of each sequence
  at::Tensor table;              // [R, M] int32
  int64_t max_q = 0, max_k = 0;  // the most of one sequence
  int64_t total_k = 0;           // the last of cu_k
  bool fresh = false;            // k and v are all keys: no sequence has earlier tokens, and pages are not read
  double scale = 1.0, softcap = 0;
  int64_t window = 0;
  at::Tensor sinks;
};
// Prompts or chunks of them: each token sees what precedes it in its sequence. [T, N, H]; nullopt where flash attention
// does not apply: other types than float16 and bfloat16, a softcap, sinks, or heads of another size for v.
std::optional<at::Tensor> paged_prefill(const Prefill& prefill, const Pages& pages);

// The index of the largest of each row of [R, V], int64 [R]: the first of equal ones.
at::Tensor argmax_rows(const at::Tensor& logits_RV);

// Rows of tokens that are generated: what a step changes.
struct GrowingRows {
  at::Tensor running;  // [R] bool
  at::Tensor column;   // [R] int64, strided: where the next tokens go
  at::Tensor lengths;  // [R] int64
  at::Tensor invalid;  // [R] bool
  int64_t pad = 0;
};
// Chooses the largest of each row, or `pad` where it does not run, and stores it in the column; counts the lengths of
// running rows, and marks those whose largest is NaN or -infinity as invalid. nullopt where there is no kernel for
// that.
std::optional<at::Tensor> append_largest(const at::Tensor& logits_RV, const GrowingRows& rows);

// A token of each row of [R, V]. settings [2, R], float64 on the same device: the temperature, 0 for the largest logit,
// and a number in [0, 1) for the draw. [3, R], float64: the token, -1 where a logit is not a number or none is
// possible; its log-probability, regardless of the temperature; and its rank, 1 for the largest, where that is wanted.
// nullopt where there is no kernel for such tensors.
std::optional<at::Tensor> sample_rows(const at::Tensor& logits_RV, const at::Tensor& settings_2R, bool wants_ranks);

}  // namespace easydel::operations::cuda_paged

// The GPU kernels over pages of keys and values, and of greedy sampling, on raw pointers: compiled by nvcc without
// torch's headers. Slot s of a sequence is in page table[s >> page_shift], at s % page_size.
#pragma once

#include <cstdint>

#include "easydel/operations/kernels/cuda/cuda_kernels.h"

namespace easydel::operations::cuda_kernels {

// Strides count elements; rows are dense.
struct PageStrides {
  int64_t page, head, row;
};

// What the rows of pages are: elements of the queries' type; int8 codes with a float32 scale behind them; 8-bit floats.
enum class PageRows { Plain, Codes, Float8E4M3, Float8E5M2 };

// One query for each sequence. Nothing about the launch depends on what is on the device.
struct PagedDecode {
  const void* q;  // [queries, kv_heads * shared, head_size]
  int64_t q_row, q_head;
  const void *k, *v;  // [pages, kv_heads, page_size, head_size or value_size]
  PageStrides k_strides, v_strides;
  const int32_t* tables;   // [queries, blocks]
  const int32_t* lengths;  // [queries] visible keys, or 0: the result is zeros
  const float* sinks;      // [kv_heads * shared] or null
  void* out;               // [queries, kv_heads * shared, value_size], dense
  float* scratch;          // scratch_floats() of them
  int64_t table_row, window;
  int32_t queries, kv_heads, shared, head_size, value_size, page_shift, blocks;
  int32_t splits, least_keys;  // set by plan_paged_decode
  float scale, softcap;
  PageRows rows;
};
bool can_paged_decode(const PagedDecode& args);
// Into how many parts the keys of a sequence are split: from `max_length`, the most that any may have.
void plan_paged_decode(PagedDecode& args, int64_t max_length);
int64_t scratch_floats(const PagedDecode& args);
void paged_decode(Element type, const PagedDecode& args, Stream stream);
void paged_decode_coded(Element type, const PagedDecode& args, Stream stream);  // its part for rows that are not Plain

// Copies the rows of new tokens to their slots: slots[t] = page * page_size + offset, or negative: not stored. Sizes
// and strides count bytes.
struct PagedStore {
  struct Rows {
    const void* x;  // [tokens, kv_heads, bytes]
    int64_t token, head;
    void* pages;
    PageStrides strides;
    int32_t bytes;  // 0: nothing to store
  };
  Rows k, v;
  const int64_t* slots;  // [tokens]
  int64_t tokens;
  int32_t kv_heads, page_shift;
};
void paged_store(const PagedStore& args, Stream stream);
// The same for rows of `type` that are stored as Codes: `bytes` is the number of features, a multiple of four.
void paged_store_codes(Element type, const PagedStore& args, Stream stream);

// y[cu_lengths[r] + s] = slot s of sequence r. Sizes and strides count bytes.
struct GatherPages {
  const void* pages;
  PageStrides strides;
  const int32_t* tables;      // [sequences, ...], rows table_row apart
  const int32_t* cu_lengths;  // [sequences + 1], from 0 to total
  void* y;                    // [total, kv_heads, bytes]
  int64_t table_row, total;
  int32_t sequences, kv_heads, page_shift, bytes;
};
void gather_pages(const GatherPages& args, Stream stream);
// The same from rows that are not Plain, as `type`: `bytes` is the number of features.
void gather_coded_pages(Element type, PageRows rows, const GatherPages& args, Stream stream);

// The index of the largest value of each row, the first of equal ones; NaN is the largest.
struct ArgMax {
  const void* x;      // [rows, width], rows x_row apart
  int64_t* ids;       // [rows]
  uint64_t* scratch;  // argmax_scratch() of them
  int64_t rows, width, x_row;

  // Where `running` is not null: rows that do not run get `pad`; ids go to `column` too, `column_row` apart; of running
  // rows, lengths are counted, and those without a value above -infinity, or with a NaN, marked as invalid.
  const bool* running;
  int64_t* column;
  int64_t* lengths;
  bool* invalid;
  int64_t column_row, pad;
};
int64_t argmax_scratch(int64_t rows);
void argmax(Element type, const ArgMax& args, Stream stream);

// A token of each row, drawn by its scores.
struct SampleRows {
  const void* x;           // [rows, width], rows x_row apart
  const double* settings;  // [2, rows]: the temperature, 0 for the largest score, and a number in [0, 1)
  double* out;             // [3, rows]: the token, or -1; its log-probability without the temperature; its rank
  int64_t rows, width, x_row;
  bool wants_ranks;
};
bool can_sample_rows(const SampleRows& args);
void sample_rows(Element type, const SampleRows& args, Stream stream);

}  // namespace easydel::operations::cuda_kernels

// Products with matrices that are kept as codes and scales: y = x W^T for x [..., in] of any float type, without
// gradients; and the matrices themselves, as float32. Codes and scales may be on any device.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

namespace easydel::quantization {

// Rows [begin, end) of a matrix as float32 [end - begin, in].
using RowsOf = std::function<at::Tensor(int64_t begin, int64_t end)>;

// codes int8 [out, in], scales float32 [out]: a value is code * scale / 127.
at::Tensor int8_product(const at::Tensor& x, const at::Tensor& codes, const at::Tensor& scales);
at::Tensor int8_rows(const at::Tensor& codes, const at::Tensor& scales);

// codes uint8 [out, in / 2], the first of two in the high bits; absmax float32 [out, in / group]: a value is
// table[code] * absmax, with bitsandbytes' table.
at::Tensor nf4_product(const at::Tensor& x, const at::Tensor& codes, const at::Tensor& absmax, int64_t group);
at::Tensor nf4_rows(const at::Tensor& codes, const at::Tensor& absmax, int64_t group);
at::Tensor nf4_table();  // [16]
// A constant table of the CPU on another device: copied there once, so that no product waits for it.
at::Tensor constant_on(const at::Tensor& table, at::Device device);

// codes uint8 [out, in / 2]; of 32 neighbours, bytes 0 to 15 hold the first 16 in the low bits and the others in the
// high bits. scales float16 [out, in / group]: a value is (code - 8) * scale.
at::Tensor int4_product(const at::Tensor& x, const at::Tensor& codes, const at::Tensor& scales, int64_t group);
at::Tensor int4_rows(const at::Tensor& codes, const at::Tensor& scales, int64_t group);
at::Tensor int4_pack(const at::Tensor& values);  // uint8 [out, in] of values below 16 to codes

// The same from rows of any kind, made a chunk at a time.
at::Tensor chunked_product(const at::Tensor& x, int64_t rows, const RowsOf& rows_of);
// From the gradient of y [..., rows] that of x [..., in], in y's type.
at::Tensor chunked_gradient(const at::Tensor& d_y, int64_t rows, int64_t in, const RowsOf& rows_of);

}  // namespace easydel::quantization

// Attention over pages of int8 codes and of 8-bit floats.
#include "easydel/operations/kernels/cuda/paged/paged_decode.cuh"

namespace easydel::operations::cuda_kernels {
namespace {

// Rows: for products of 16-bit numbers. PlainlyRead: one by one.
template <class T, class Rows, class PlainlyRead>
void decode_coded(const PagedDecode& a, Stream stream) {
  bool done = false;
  if constexpr (!std::is_same_v<T, float>) done = decode_in_tiles<T, Rows>(a, stream);
  if (!done) decode_plainly<T, PlainlyRead>(a, stream);
}

}  // namespace

void paged_decode_coded(Element type, const PagedDecode& a, Stream stream) {
  with_type(type, [&](auto t) {
    using T = decltype(t);
    switch (a.rows) {
      case PageRows::Plain: return;
      case PageRows::Codes: return decode_coded<T, CodeRowsOf<T>, CodeRows>(a, stream);
      case PageRows::Float8E4M3: return decode_coded<T, Float8RowsOf<T, __NV_E4M3>, Float8Rows<__NV_E4M3>>(a, stream);
      case PageRows::Float8E5M2: return decode_coded<T, Float8RowsOf<T, __NV_E5M2>, Float8Rows<__NV_E5M2>>(a, stream);
    }
  });
}

}  // namespace easydel::operations::cuda_kernels

#include "easydel/io/gguf/gguf_writer.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <bit>
#include <cstring>

#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/core/text/quoted.h"
#include "easydel/io/gguf/gguf_quantize.h"

namespace easydel {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF is written as it lies in memory");
constexpr int64_t kGgufAlignment = 32;

template <class T>
void put(std::string& to, T value) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  to.append(bytes, sizeof(T));
}

void put_text(std::string& to, std::string_view text) {
  put<uint64_t>(to, text.size());
  to.append(text);
}

int64_t padded(int64_t size) { return (size + kGgufAlignment - 1) / kGgufAlignment * kGgufAlignment; }

at::Tensor encoded(const GgmlType& type, const at::Tensor& given) {
  if (type.is_plain()) return given.to(at::kCPU, type.dtype).contiguous();
  const at::Tensor values = given.to(at::kCPU, at::kFloat).contiguous();
  const int64_t count = values.numel() / type.block_elements;
  const at::Tensor blocks = at::empty({count * type.block_bytes}, at::kByte);
  const float* from = values.const_data_ptr<float>();
  auto* to = reinterpret_cast<std::byte*>(blocks.mutable_data_ptr<uint8_t>());
  at::parallel_for(0, count, std::max<int64_t>(1, 4096 / type.block_elements), [&](int64_t begin, int64_t end) {
    gguf_quantize(type, from + begin * type.block_elements, end - begin, to + begin * type.block_bytes);
  });
  return blocks;
}

}  // namespace

int64_t GgufWriter::Tensor::nbytes() const {
  int64_t elements = 1;
  for (const int64_t size : shape) elements *= size;
  return elements / type->block_elements * type->block_bytes;
}

void GgufWriter::add_tensor(std::string name, std::vector<int64_t> shape, const GgmlType& type,
                            std::function<at::Tensor()> make) {
  require<ConfigError>(type.is_plain() || can_quantize(type), "[GGUF] tensors of type ", type.name,
                       " cannot be written; F32, F16, BF16, Q8_0, Q4_0, Q4_K and Q6_K can.");
  require<ConfigError>(type.is_plain() || (!shape.empty() && shape.back() % type.block_elements == 0), "[GGUF] ",
                       quoted(name), " has rows of ", shape.empty() ? 1 : shape.back(), ", which blocks of ",
                       type.block_elements, " (", type.name, ") do not divide.");
  tensors_.push_back({std::move(name), std::move(shape), &type, std::move(make)});
}

void GgufWriter::write(const std::filesystem::path& path) const {
  std::string header = "GGUF";
  put<uint32_t>(header, 3);
  put<uint64_t>(header, tensors_.size());
  put<uint64_t>(header, metadata.count());
  header += metadata.bytes();
  int64_t offset = 0;
  for (const Tensor& tensor : tensors_) {
    put_text(header, tensor.name);
    put<uint32_t>(header, static_cast<uint32_t>(tensor.shape.size()));
    for (auto size = tensor.shape.rbegin(); size != tensor.shape.rend(); ++size)
      put<uint64_t>(header, static_cast<uint64_t>(*size));
    put<uint32_t>(header, tensor.type->id);
    put<uint64_t>(header, static_cast<uint64_t>(offset));
    offset += padded(tensor.nbytes());
  }
  header.append(
      static_cast<std::size_t>(padded(static_cast<int64_t>(header.size())) - static_cast<int64_t>(header.size())),
      '\0');
  AtomicFile file(path);
  file.write(header.data(), header.size());
  const std::string zeros(kGgufAlignment, '\0');
  for (const Tensor& tensor : tensors_) {
    const at::Tensor values = tensor.make();
    require<ShapeError>(values.sizes() == at::IntArrayRef(tensor.shape), "[GGUF] ", quoted(tensor.name),
                        " was announced as ", at::IntArrayRef(tensor.shape), "; got ", values.sizes(), ".");
    const at::Tensor bytes = encoded(*tensor.type, values);
    file.write(bytes.const_data_ptr(), bytes.nbytes());
    file.write(zeros.data(), static_cast<std::size_t>(padded(tensor.nbytes()) - tensor.nbytes()));
  }
  file.commit();
}

}  // namespace easydel

#include "easydel/io/safetensors/safetensors_header.h"
#include "fuzz.h"

using namespace easydel;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  return fuzz::refuse_or([&] {
    const std::span<const std::byte> bytes = fuzz::as_bytes(data, size);
    const SafetensorsHeader header = parse_safetensors_header(bytes, "fuzz.safetensors");
    for (const TensorInfo& info : header.tensors) {
      if (info.numel() * dtype_bytes(info.dtype) != info.nbytes) {
        fuzz::found("a tensor has another size than its shape");
      }
      fuzz::touch(bytes.subspan(static_cast<std::size_t>(info.offset), static_cast<std::size_t>(info.nbytes)));
    }
    for (const auto& [key, value] : header.metadata) fuzz::touch(key + value);
  });
}

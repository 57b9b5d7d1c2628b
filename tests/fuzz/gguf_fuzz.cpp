#include "easydel/io/gguf/gguf.h"
#include "easydel/io/gguf/gguf_dequantize.h"
#include "fuzz.h"

using namespace easydel;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  return fuzz::refuse_or([&] {
    const std::span<const std::byte> bytes = fuzz::as_bytes(data, size);
    const GgufContainer container(bytes, "fuzz.gguf");
    for (const auto& [key, value] : container.metadata()) {
      if (container.find(key) != &value) fuzz::found("a value is not found by its key");
      fuzz::touch(value.to_json().dump());
    }
    for (const GgufTensor& tensor : container.tensors()) {
      const GgmlType& type = *tensor.type;
      const auto stored =
          bytes.subspan(static_cast<std::size_t>(tensor.info.offset), static_cast<std::size_t>(tensor.info.nbytes));
      fuzz::touch(stored);
      if (type.is_plain() || !type.is_readable) continue;
      std::vector<float> decoded(static_cast<std::size_t>(tensor.info.numel()));
      gguf_dequantize(type, stored.data(), tensor.info.numel() / type.block_elements, decoded.data());
      fuzz::touch(std::as_bytes(std::span(decoded)));
    }
  });
}

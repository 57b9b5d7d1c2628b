#include "easydel/io/torch_archive.h"
#include "fuzz.h"

using namespace easydel;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  return fuzz::refuse_or([&] {
    const TorchArchive archive(fuzz::as_bytes(data, size), "fuzz.bin");
    for (const TorchTensor& tensor : archive.tensors()) {
      const ZipEntry& entry = archive.zip().entries()[tensor.storage];
      if (tensor.info.numel() == 0 || entry.deflated) continue;
      fuzz::refuse_or([&] {
        const std::span<const std::byte> storage = archive.zip().stored_bytes(entry);
        int64_t last = tensor.storage_offset;
        for (std::size_t d = 0; d < tensor.strides.size(); ++d) last += (tensor.info.shape[d] - 1) * tensor.strides[d];
        const auto bytes = static_cast<std::size_t>(dtype_bytes(tensor.info.dtype));
        fuzz::touch({storage.data() + static_cast<std::size_t>(tensor.storage_offset) * bytes, bytes});
        fuzz::touch({storage.data() + static_cast<std::size_t>(last) * bytes, bytes});
      });
    }
  });
}

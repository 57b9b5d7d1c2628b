#include "easydel/io/torch/torch_archive.h"
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
        // The archive continues after a storage, so the sanitizer would not detect a tensor that extends past it.
        if ((last + 1) * dtype_bytes(tensor.info.dtype) > static_cast<int64_t>(storage.size())) {
          fuzz::found("a tensor reaches out of its storage");
        }
        fuzz::touch(storage);
      });
    }
  });
}

#include "easydel/io/torch/zip.h"
#include "fuzz.h"

using namespace easydel;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  return fuzz::refuse_or([&] {
    const ZipLimits small = {.max_growth = 200, .harmless_size = 1 << 16};  // inflating is slow here
    const ZipArchive zip(fuzz::as_bytes(data, size), "fuzz.zip", small);
    for (const ZipEntry& entry : zip.entries()) {
      if (zip.find(entry.name) != &entry) fuzz::found("an entry is not found by its name");
      fuzz::refuse_or([&] {
        fuzz::touch(zip.stored_bytes(entry));
        if (entry.deflated && zip.inflate(entry).size() != entry.size) fuzz::found("an entry has another size");
      });
    }
  });
}

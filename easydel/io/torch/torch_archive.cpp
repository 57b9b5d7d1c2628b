#include "easydel/io/torch/torch_archive.h"

#include "easydel/core/error.h"
#include "easydel/io/hub/lfs_pointer.h"
#include "easydel/io/torch/pickle.h"
#include "easydel/io/torch/torch_globals.h"

namespace easydel {
namespace {

std::span<const std::byte> refuse_other_formats(std::span<const std::byte> bytes, const std::string& where) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  // Protocol 2 and the number 0x1950a86a20f9469cfc6c.
  constexpr std::string_view kLegacy = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";
  require<NotSupportedError>(!text.starts_with(kLegacy), "[", where,
                             "] is in the format that torch wrote before 1.6. Convert it in Python: "
                             "torch.save(torch.load(path, weights_only=True), path).");
  refuse_lfs_pointer(bytes, where);
  return bytes;
}

// The content of an entry, held in `buffer` when it was compressed.
std::span<const std::byte> read_entry(const ZipArchive& zip, const ZipEntry& entry, std::vector<std::byte>& buffer) {
  if (!entry.deflated) return zip.stored_bytes(entry);
  return buffer = zip.inflate(entry);
}

}  // namespace

TorchArchive::TorchArchive(std::span<const std::byte> bytes, const std::string& where)
    : zip_(refuse_other_formats(bytes, where), where) {
  // All entries are under one directory, whatever its name.
  const std::string_view first = zip_.entries().empty() ? "" : zip_.entries()[0].name;
  const std::string directory(first.substr(0, first.find('/') + 1));
  const ZipEntry* pickle_entry = zip_.find(directory + "data.pkl");
  require<FormatError>(pickle_entry && !directory.empty(), "[", where,
                       "] is a zip archive that torch.save did not write: it has no data.pkl.");
  require<NotSupportedError>(!zip_.find(directory + "constants.pkl"), "[", where,
                             "] is a TorchScript program. Save its weights in Python: "
                             "torch.save(torch.jit.load(path).state_dict(), path).");
  std::vector<std::byte> buffer;
  if (const ZipEntry* order = zip_.find(directory + "byteorder")) {
    const std::span<const std::byte> bytes_of_order = read_entry(zip_, *order, buffer);
    const std::string_view text(reinterpret_cast<const char*>(bytes_of_order.data()), bytes_of_order.size());
    require<NotSupportedError>(text != "big", "[", where,
                               "] was written on a big-endian machine. Load and save it again with torch on a "
                               "little-endian one.");
    require<FormatError>(text == "little", "[", where, "] has a byteorder that is neither \"little\" nor \"big\".");
  }
  const Pickle pickle =
      Pickle::parse(read_entry(zip_, *pickle_entry, buffer), {.where = where, .globals = torch_global_names()});
  tensors_ = read_torch_state_dict(pickle.root(), zip_, directory, where);
}

}  // namespace easydel

// Clones made without Git LFS contain small text files in place of the large ones.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "easydel/core/error.h"

namespace easydel {

// FormatError with what to do, when the file is such a pointer.
inline void refuse_lfs_pointer(std::span<const std::byte> file, std::string_view where) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  require<FormatError>(!text.starts_with("version https://git-lfs"), "[", where,
                       "] is a Git LFS pointer, not the file itself. Download it with `git lfs pull`.");
}

}  // namespace easydel

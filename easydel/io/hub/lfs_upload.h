// Uploads of large files by git's LFS batch protocol, with the hub's multipart extension.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "easydel/io/hub/hub_api.h"

namespace easydel {

struct LfsFile {
  std::string path;  // in the repository
  std::filesystem::path source;
  int64_t size = 0;
  std::string sha256;
};

struct LfsUpload {
  const HubEnvironment& environment;
  const HubRepo& repo;
  int max_workers = 5;
};

// Afterwards the hub has the content of all files; what it already had is not sent again.
void upload_lfs_files(const LfsUpload& upload, const std::vector<LfsFile>& files);

}  // namespace easydel

// Downloads one file of the hub into the cache.
#pragma once

#include <chrono>
#include <string>

#include "easydel/io/hub/hub_api.h"
#include "easydel/io/hub/hub_cache.h"

namespace easydel {

struct HubDownload {
  const HubRepo& repo;
  const std::string& commit;
  const HubFile& file;
  bool progress = true;  // shows a bar
  bool links = true;     // false: the snapshot gets a copy of the blob
  std::chrono::seconds lock_timeout{0};
};

// Waits for another process that downloads the same file, and then uses its result. Resumes where an earlier attempt
// stopped. A file is in the snapshot only when its size and hash are right. Killed at any moment, it leaves at most a
// partial `<etag>.incomplete` among the blobs.
// HubError, HttpError when the retries are used up, FormatError when the content does not match the hub's listing.
void download_file(HubApi& api, const HubCache& cache, const HubDownload& download);

}  // namespace easydel

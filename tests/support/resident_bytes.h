// How much of a mapped file is in this process's memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

namespace easydel {

inline int64_t resident_bytes(const std::filesystem::path& path) {
  std::ifstream smaps("/proc/self/smaps");
  int64_t total = 0;
  bool ours = false;
  for (std::string line; std::getline(smaps, line);) {
    if (line.find('-') < line.find(' ')) ours = line.ends_with(path.string());  // the first line of a map: from-to
    if (ours && line.starts_with("Rss:")) total += std::stoll(line.substr(4)) * 1024;
  }
  return total;
}

}  // namespace easydel

// A run file of Weights & Biases: records of wandb_internal.proto in LevelDB's log format, which `wandb sync` uploads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "easydel/core/json/json.h"

namespace easydel {

class WandbFile {
 public:
  // Replaces a file of that name. IoError names it.
  explicit WandbFile(std::filesystem::path path);
  ~WandbFile();
  WandbFile(const WandbFile&) = delete;
  WandbFile& operator=(const WandbFile&) = delete;

  struct Run {
    std::string id, entity, project, name, host;
    Json config;  // an object
    double started = 0;
  };
  using Items = std::vector<std::pair<std::string, Json>>;

  void header();
  void run(const Run& run);
  void history(int64_t step, const Items& items);
  void summary(const Items& items);
  void file(const std::string& path);  // below the run's folder `files`
  void exit(int code, int64_t seconds);

 private:
  void record(uint32_t field, const std::string& message);
  void append(std::string_view data);
  void write(const std::string& bytes);

  std::filesystem::path path_;
  int fd_ = -1;
  int64_t number_ = 0;
  std::size_t in_block_ = 0;
};

}  // namespace easydel

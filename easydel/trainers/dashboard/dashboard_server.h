// A page with the curves of runs, while they go on and afterwards, for a browser on this machine.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "easydel/serve/http/http_server.h"

namespace easydel {

// Reads what is new in a thread of its own, at most two percent of the time, and as long as it lives.
class DashboardServer {
 public:
  // IoError for a directory without a metrics.jsonl, and where the address is taken.
  DashboardServer(std::vector<std::filesystem::path> runs, const serve::HttpOptions& http);
  ~DashboardServer();

  std::string address() const;  // "http://127.0.0.1:8265/"

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace easydel

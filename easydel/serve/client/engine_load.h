// Sends the requests of a load test to an engine in this process: what a server would add is left out.
#pragma once

#include <memory>

#include "easydel/serve/client/load_run.h"

namespace easydel::serve {

class Engine;

struct EngineLoadOptions {
  double temperature = 0.0;
  bool ignore_eos = false;
};

// Prompts must be ids. Whatever ends early is an error of its record: start() throws nothing, as the engine's thread
// may be writing other records.
class EngineLoad : public LoadTarget {
 public:
  EngineLoad(std::shared_ptr<Engine> engine, EngineLoadOptions options);
  ~EngineLoad() override;

  void start(const LoadRequest& request, LoadRecord& record, double epoch) override;
  int64_t wait(double seconds) override;

 private:
  struct Ended;
  std::shared_ptr<Engine> engine_;
  EngineLoadOptions options_;
  std::shared_ptr<Ended> ended_;  // callbacks hold it too
};

}  // namespace easydel::serve

// Runs the steps of a scheduler on a model and its paged cache. On a mesh rank 0 tells the others what to compute.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "easydel/caching/ragged_pages_cache.h"
#include "easydel/serve/engine/adapters.h"
#include "easydel/serve/engine/scheduler.h"

namespace easydel {
class BaseModule;
struct ImageInputs;
}  // namespace easydel

namespace easydel::serve {

// The tokens of a step, one sequence after the other, and of which of them logits or hidden states are wanted.
struct StepInputs {
  std::vector<int64_t> tokens;
  std::vector<RaggedBatch::Part> parts;
  std::vector<int64_t> adapters;      // of each part: an index, or -1; fastest where equal ones are neighbours
  std::vector<int64_t> logit_places;  // in the row of tokens
  bool wants_hidden = false;
  // Of images: features [n, …], and their places in the row of tokens. Not sent to other ranks.
  at::Tensor features = {};
  std::vector<int64_t> feature_places = {};
  at::Tensor positions = {};  // [3, T] where some sequence has positions by row and column; likewise
  // Of a step that was started before the tokens of the last one were known: tokens[places[i]] is chosen[rows[i]],
  // which is on the device. Likewise not for other ranks.
  at::Tensor chosen = {};  // [rows] int64
  std::vector<int64_t> chosen_places = {}, chosen_rows = {};

  std::vector<int64_t> to_numbers() const;  // for the other ranks
  static StepInputs from_numbers(const std::vector<int64_t>& numbers);
  void put_chosen(const at::Tensor& ids) const;  // into ids [tokens], which are on the device
};

struct StepOutputs {
  at::Tensor logits;  // [places, V]
  at::Tensor hidden;  // [T, D], if wanted
};

class DecodeGraphs;

class Runner {
 public:
  // graph_batch: the most sequences of a decode step that is captured in a CUDA graph; 0: none is. Without a table no
  // part of a step may have an adapter.
  Runner(std::shared_ptr<const BaseModule> model, std::shared_ptr<RaggedPagesCache> cache, int64_t graph_batch = 0,
         std::unique_ptr<AdapterTable> adapters = nullptr);
  ~Runner();

  StepOutputs run(const StepInputs& inputs);
  at::Tensor image_features(const ImageInputs& images) const;  // [tokens, …]
  // Between steps; on a mesh rank 0, for all.
  // Its index. `weights` are those of the directory, which the other ranks read themselves; IoError when one cannot.
  int64_t load_adapter(const std::string& directory, const std::vector<AdapterWeights>& weights);
  void unload_adapter(int64_t index);
  AdapterTable& adapters() { return *adapters_; }
  // Ranks other than 0: takes part in the steps of rank 0 until that stops, and in those of its draft model.
  void follow(Runner* drafts = nullptr);
  void tell_of_drafts() { step_of_drafts_ = true; }  // this is the runner of a draft model: `follow` above can tell
  void stop_followers() const;
  void stay_in_touch() const;  // while there is nothing to do, so that the others do not time out
  bool is_leader() const;
  bool is_shared() const;  // by several ranks

  const RaggedPagesCache& cache() const { return *cache_; }

 private:
  void send(const std::vector<int64_t>& numbers) const;
  StepOutputs compute(const StepInputs& inputs);
  void follow_load(const std::string& directory);
  int64_t count_failures(bool has_failed) const;  // on all ranks

  std::shared_ptr<const BaseModule> model_;
  std::shared_ptr<RaggedPagesCache> cache_;
  std::unique_ptr<DecodeGraphs> graphs_;
  std::unique_ptr<AdapterTable> adapters_;
  bool step_of_drafts_ = false;
};

}  // namespace easydel::serve

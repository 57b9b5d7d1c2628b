#include "easydel/serve/engine/runner.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <optional>

#include "easydel/core/error.h"
#include "easydel/core/log.h"
#include "easydel/infra/base_module.h"
#include "easydel/infra/decoder/accepts_images.h"
#include "easydel/processors/vision_processor.h"
#include "easydel/serve/engine/decode_graphs.h"
#include "easydel/sharding/parallel.h"

namespace easydel::serve {
namespace {

// Instead of a number of tokens.
constexpr int64_t kStopFollowing = -1;
constexpr int64_t kLoadAdapter = -2;    // then the characters of a directory
constexpr int64_t kUnloadAdapter = -3;  // then an index
constexpr int64_t kDraftStep = -4;      // then a step of the draft model

void put_numbers(std::vector<int64_t>& to, const auto& values) {
  to.push_back(static_cast<int64_t>(values.size()));
  to.insert(to.end(), values.begin(), values.end());
}

template <class T>
std::vector<T> take_numbers(const int64_t*& at) {
  const int64_t count = *at++;
  std::vector<T> values(at, at + count);
  at += count;
  return values;
}

}  // namespace

std::vector<int64_t> StepInputs::to_numbers() const {
  std::vector<int64_t> all;
  put_numbers(all, tokens);
  put_numbers(all, adapters);
  put_numbers(all, logit_places);
  all.push_back(wants_hidden);
  all.push_back(static_cast<int64_t>(parts.size()));
  for (const RaggedBatch::Part& part : parts) {
    all.push_back(part.tokens);
    all.push_back(part.before);
    put_numbers(all, part.pages);
  }
  return all;
}

StepInputs StepInputs::from_numbers(const std::vector<int64_t>& numbers) {
  const int64_t* at = numbers.data();
  StepInputs inputs;
  inputs.tokens = take_numbers<int64_t>(at);
  inputs.adapters = take_numbers<int64_t>(at);
  inputs.logit_places = take_numbers<int64_t>(at);
  inputs.wants_hidden = *at++ != 0;
  inputs.parts.resize(static_cast<std::size_t>(*at++));
  for (RaggedBatch::Part& part : inputs.parts) {
    part.tokens = *at++;
    part.before = *at++;
    part.pages = take_numbers<int32_t>(at);
  }
  return inputs;
}

void StepInputs::put_chosen(const at::Tensor& ids) const {
  if (chosen_places.empty()) return;
  const auto on_device = [&](const std::vector<int64_t>& numbers) {
    const auto options = at::TensorOptions(at::kLong).pinned_memory(ids.is_cuda());
    return at::tensor(numbers, options).to(ids.device(), /*non_blocking=*/true);
  };
  ids.index_copy_(0, on_device(chosen_places), chosen.index_select(0, on_device(chosen_rows)));
}

Runner::Runner(std::shared_ptr<const BaseModule> model, std::shared_ptr<RaggedPagesCache> cache, int64_t graph_batch,
               std::unique_ptr<AdapterTable> adapters)
    : model_(std::move(model)),
      cache_(std::move(cache)),
      graphs_(graph_batch > 0 ? DecodeGraphs::make(model_, cache_, graph_batch) : nullptr),
      adapters_(std::move(adapters)) {}

Runner::~Runner() = default;

bool Runner::is_leader() const { return !model_->parallel() || model_->parallel()->everyone().rank() == 0; }

void Runner::send(const std::vector<int64_t>& numbers) const {
  if (!is_shared()) return;
  const auto options = at::TensorOptions(at::kLong).device(cache_->metadata().device);
  const Group& everyone = model_->parallel()->everyone();
  everyone.broadcast(at::full({1}, static_cast<int64_t>(numbers.size()), options), 0);
  if (!numbers.empty()) everyone.broadcast(at::tensor(numbers, at::kLong).to(options.device()), 0);
}

void Runner::follow(Runner* drafts) {
  const auto options = at::TensorOptions(at::kLong).device(cache_->metadata().device);
  const Group& everyone = model_->parallel()->everyone();
  while (true) {
    const at::Tensor size = at::zeros({1}, options);
    everyone.broadcast(size, 0);
    const auto count = size.item<int64_t>();
    if (count == 0) continue;  // rank 0 is idle, and says so before the collective times out
    const at::Tensor data = at::empty({count}, options);
    everyone.broadcast(data, 0);
    const at::Tensor host = data.to(at::kCPU);
    const auto* first = host.const_data_ptr<int64_t>();
    if (*first == kStopFollowing) return;
    if (*first == kLoadAdapter) {
      follow_load({first + 1, first + count});
    } else if (*first == kUnloadAdapter) {
      adapters_->remove(first[1]);
    } else if (*first == kDraftStep) {
      drafts->compute(StepInputs::from_numbers({first + 1, first + count}));
    } else {
      compute(StepInputs::from_numbers({first, first + count}));
    }
  }
}

int64_t Runner::count_failures(bool has_failed) const {
  if (!is_shared()) return has_failed ? 1 : 0;
  const auto options = at::TensorOptions(at::kLong).device(cache_->metadata().device);
  const at::Tensor failures = at::full({1}, has_failed ? 1 : 0, options);
  model_->parallel()->everyone().all_reduce(failures);
  return failures.item<int64_t>();
}

// What can fail on one rank alone comes first, and then all know whether it did.
void Runner::follow_load(const std::string& directory) {
  std::optional<std::vector<AdapterWeights>> weights;
  try {
    weights = adapters_->read(directory);
  } catch (const std::exception& error) {
    log::error(error.what());  // rank 0 tells the caller
  }
  if (count_failures(!weights) == 0) adapters_->add(adapters_->place(*weights));
}

int64_t Runner::load_adapter(const std::string& directory, const std::vector<AdapterWeights>& weights) {
  std::vector<int64_t> message{kLoadAdapter};
  message.insert(message.end(), directory.begin(), directory.end());
  send(message);
  const int64_t failures = count_failures(false);
  require<IoError>(failures == 0, "[engine] ", failures, " other ranks cannot read the adapter in ", directory,
                   "; their logs say why.");
  return adapters_->add(adapters_->place(weights));
}

void Runner::unload_adapter(int64_t index) {
  send({kUnloadAdapter, index});
  adapters_->remove(index);
}

bool Runner::is_shared() const { return model_->parallel() && !model_->parallel()->is_single(); }
void Runner::stop_followers() const { send({kStopFollowing}); }
void Runner::stay_in_touch() const { send({}); }

StepOutputs Runner::run(const StepInputs& inputs) {
  if (is_shared()) {
    std::vector<int64_t> numbers = inputs.to_numbers();
    if (step_of_drafts_) numbers.insert(numbers.begin(), kDraftStep);
    send(numbers);
  }
  return compute(inputs);
}

at::Tensor Runner::image_features(const ImageInputs& images) const {
  const c10::InferenceMode guard;
  ModelInputs inputs;
  inputs.pixel_values = images.pixel_values.to(cache_->metadata().device);
  inputs.image_sizes = images.image_sizes;
  inputs.pixel_attention_mask = images.pixel_attention_mask;
  inputs.image_grid_thw = images.image_grid_thw;
  return dynamic_cast<const AcceptsImages&>(*model_).encode_images(inputs);
}

StepOutputs Runner::compute(const StepInputs& step) {
  const c10::InferenceMode guard;
  if (graphs_ && !step.features.defined() && !step.positions.defined()) {
    if (std::optional<at::Tensor> logits = graphs_->run(step)) return {.logits = *logits, .hidden = {}};
  }
  const at::Device device = cache_->metadata().device;
  auto batch = std::make_shared<RaggedBatch>();
  batch->parts = step.parts;
  ModelInputs inputs;
  const at::Tensor ids = at::tensor(step.tokens, at::kLong).to(device);
  step.put_chosen(ids);
  inputs.input_ids = ids.unsqueeze(0);
  if (step.features.defined()) {
    const auto& seeing = dynamic_cast<const AcceptsImages&>(*model_);
    const at::Tensor places = at::tensor(step.feature_places, at::kLong).to(device);
    inputs.inputs_embeds = seeing.embed_with_images(inputs.input_ids, step.features, places);
    if (seeing.needs_whole_images()) inputs.token_type_ids = at::zeros_like(inputs.input_ids).index_fill(1, places, 1);
    inputs.input_ids.reset();
  }
  if (step.positions.defined()) inputs.position_ids = step.positions.to(device).unsqueeze(1);
  inputs.past_key_values = cache_;
  inputs.cache_metadata = batch;
  inputs.output_logits = !step.logit_places.empty();
  if (!step.logit_places.empty()) inputs.logit_indices = at::tensor(step.logit_places, at::kLong).to(device);
  std::optional<AdapterScope> adapted;
  if (adapters_) adapted.emplace(*adapters_, step);
  const ModelOutput out = (*model_)(inputs);
  StepOutputs outputs;
  if (out.logits.defined()) outputs.logits = out.logits.squeeze(0);
  if (step.wants_hidden) outputs.hidden = out.last_hidden_state.squeeze(0);
  return outputs;
}

}  // namespace easydel::serve

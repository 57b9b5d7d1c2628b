#include "easydel/trainers/rollouts/rollouts.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <numeric>

#include "easydel/core/error.h"
#include "easydel/infra/base_module.h"
#include "easydel/serve/engine/between_steps.h"
#include "easydel/serve/engine/engine.h"
#include "easydel/serve/engine/forget_prefixes.h"
#include "easydel/sharding/parallel.h"
#include "easydel/tokenizers/auto_tokenizer.h"
#include "easydel/trainers/run/batch.h"

namespace easydel {
namespace {

constexpr int64_t kSequencesAtOnce = 256, kGpuSequencesAtOnce = 512;
constexpr int64_t kPageSize = 16;

int64_t full_pages(int64_t tokens) { return (tokens + kPageSize - 1) / kPageSize * kPageSize; }

bool is_shared(const BaseModule& model) { return model.parallel() && !model.parallel()->is_single(); }

Json to_json(const RolloutResult& result) {
  Json groups = Json::array();
  for (const auto& group : result.completions) {
    Json list = Json::array();
    for (const Completion& each : group)
      list.push_back(Json::object(
          {{"ids", each.ids}, {"logps", each.logps}, {"text", each.text}, {"truncated", each.is_truncated}}));
    groups.push_back(std::move(list));
  }
  return Json::object({{"groups", groups}, {"prefilled", result.prefilled_tokens}, {"prompts", result.prompt_tokens}});
}

RolloutResult from_json(const Json& json) {
  RolloutResult result{.completions = {},
                       .prefilled_tokens = json.at("prefilled").as_int(),
                       .prompt_tokens = json.at("prompts").as_int()};
  for (const Json& list : json.at("groups").as_array()) {
    std::vector<Completion> group;
    for (const Json& each : list.as_array()) {
      Completion completion{
          .ids = {}, .logps = {}, .text = each.at("text").as_string(), .is_truncated = each.at("truncated").as_bool()};
      for (const Json& id : each.at("ids").as_array()) completion.ids.push_back(id.as_int());
      for (const Json& logp : each.at("logps").as_array()) completion.logps.push_back(logp.as_double());
      group.push_back(std::move(completion));
    }
    result.completions.push_back(std::move(group));
  }
  return result;
}

// Collects what the engine's thread hands out. The first completion of a group fills the pages of its prompt; the
// others begin when they are there. All requests are submitted on the engine's thread: which of them share a step, and
// with that the last bits of their log-probabilities, must not depend on the clock.
class Collector {
 public:
  Collector(serve::Engine& engine, const Tokenizer& tokenizer, const std::vector<std::vector<int64_t>>& prompts,
            int64_t group, const serve::SamplingParams& sampling, const RandomKey& key,
            const std::vector<int64_t>& max_tokens, CompletionSink* sink)
      : engine_(engine),
        tokenizer_(tokenizer),
        prompts_(prompts),
        max_tokens_(max_tokens),
        group_(group),
        sampling_(sampling),
        key_(key),
        sink_(sink) {
    result_.completions.assign(prompts.size(), std::vector<Completion>(static_cast<std::size_t>(group)));
    missing_ = prompts.size() * static_cast<std::size_t>(group);
  }

  RolloutResult run() {
    serve::between_steps(engine_, [&] {
      for (std::size_t i = 0; i < prompts_.size(); ++i) submit(i, 0);
    });
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [&] { return missing_ == 0; });
    if (sink_) sink_->check();
    require<Error>(error_.empty(), "[rollouts] ", error_);
    return std::move(result_);
  }

 private:
  // On the engine's thread, where it must not throw: what a request is refused for ends the run.
  void submit(std::size_t prompt, int64_t index) {
    if (stops_) {
      const std::lock_guard lock(mutex_);
      return end_with("", index == 0 ? group_ : 1);
    }
    serve::Request request;
    request.prompt.assign(prompts_[prompt].begin(), prompts_[prompt].end());
    request.sampling = sampling_;
    if (!max_tokens_.empty()) request.sampling.max_tokens = max_tokens_[prompt];
    request.sampling.seed = key_.fold(prompt).fold(static_cast<uint64_t>(index)).bits();
    try {
      requests_.push_back(engine_.submit(
          std::move(request), [this, prompt, index](const serve::RequestOutput& out) { take(prompt, index, out); }));
    } catch (const std::exception& error) {
      const std::lock_guard lock(mutex_);
      end_with(error.what(), index == 0 ? group_ : 1);  // nobody submits the others of a group that did not begin
    }
  }

  // The caller holds the lock.
  void end_with(const std::string& error, int64_t count) {
    if (error_.empty()) error_ = error;
    missing_ -= static_cast<std::size_t>(count);
    if (missing_ == 0) ended_.notify_all();
  }

  void take(std::size_t prompt, int64_t index, const serve::RequestOutput& out) {
    bool is_first = false;
    {
      const std::lock_guard lock(mutex_);
      Completion& completion = result_.completions[prompt][static_cast<std::size_t>(index)];
      is_first = index == 0 && completion.ids.empty();
      completion.ids.insert(completion.ids.end(), out.tokens.begin(), out.tokens.end());
      for (const serve::TokenLogprobs& each : out.logprobs) completion.logps.push_back(each.chosen.logprob);
    }
    if (!stops_ && sink_ && sink_->has_failed()) {
      stops_ = true;
      for (const serve::RequestId id : requests_) engine_.cancel(id);
    }
    if (is_first) {
      for (int64_t i = 1; i < group_; ++i) submit(prompt, i);
    }
    if (!out.finish) return;
    if (*out.finish == serve::Finish::Error || *out.finish == serve::Finish::Cancelled) {
      const std::lock_guard lock(mutex_);
      return end_with(out.error, 1);
    }
    Completion& completion = result_.completions[prompt][static_cast<std::size_t>(index)];
    completion.is_truncated = *out.finish == serve::Finish::Length;
    completion.text = text_of(completion);
    if (sink_) sink_->take(prompt, static_cast<std::size_t>(index), completion);
    const std::lock_guard lock(mutex_);
    result_.prompt_tokens += out.prompt_tokens;
    result_.prefilled_tokens += out.prompt_tokens - out.cached_tokens;
    if (--missing_ == 0) ended_.notify_all();
  }

  // Without the token that ended it.
  std::string text_of(const Completion& completion) const {
    const std::vector<int32_t> ids(completion.ids.begin(), completion.ids.end() - (completion.is_truncated ? 0 : 1));
    return tokenizer_.decode(ids);
  }

  serve::Engine& engine_;
  const Tokenizer& tokenizer_;
  const std::vector<std::vector<int64_t>>& prompts_;
  const std::vector<int64_t>& max_tokens_;
  int64_t group_;
  serve::SamplingParams sampling_;
  RandomKey key_;
  CompletionSink* sink_;
  std::vector<serve::RequestId> requests_;  // of the engine's thread, as the next
  bool stops_ = false;
  std::mutex mutex_;
  std::condition_variable ended_;
  std::size_t missing_ = 0;
  std::string error_;
  RolloutResult result_;
};

class EngineRollouts {
 public:
  EngineRollouts(std::shared_ptr<BaseModule> model, std::shared_ptr<const Tokenizer> tokenizer,
                 const RolloutArguments& arguments)
      : model_(std::move(model)), tokenizer_(std::move(tokenizer)), arguments_(arguments) {
    sampling_.temperature = arguments.temperature;
    sampling_.top_p = arguments.top_p;
    sampling_.top_k = arguments.top_k.value_or(0);
    sampling_.min_p = arguments.min_p.value_or(0);
    sampling_.repetition_penalty = arguments.repetition_penalty;
    sampling_.presence_penalty = arguments.presence_penalty;
    sampling_.frequency_penalty = arguments.frequency_penalty;
    sampling_.max_tokens = arguments.max_completion_length;
    if (arguments.temperature == 1.0) sampling_.logprobs = 0;  // the engine's are those of the scores as they are
  }

  RolloutResult run(const std::vector<std::vector<int64_t>>& prompts, int64_t group, const RandomKey& key,
                    const std::vector<int64_t>& max_tokens, CompletionSink* sink) {
    int64_t length = 0;
    for (std::size_t i = 0; i < prompts.size(); ++i)
      length = std::max(length, static_cast<int64_t>(prompts[i].size()) +
                                    (max_tokens.empty() ? arguments_.max_completion_length : max_tokens[i]));
    const int64_t rows = static_cast<int64_t>(prompts.size()) * group, most = sequences_at_once();
    if (!is_shared(*model_)) {
      // Where some wait for others to end, the number of pages decides what of a prompt is still cached: a run that
      // resumes must have as many.
      const bool is_same = rows <= most || room_for(length) == length_;
      if (!engine_ || length > length_ || rows > rows_ || !is_same) {
        engine_.reset();
        engine_ = make(length, rows);
      }
      serve::forget_prefixes(*engine_);  // the weights have changed
      return Collector(*engine_, *tokenizer_, prompts, group, sampling_, key, max_tokens, sink).run();
    }
    // The engine's threads of all ranks talk to each other, so that they must be gone before the next step.
    const Parallel& parallel = *model_->parallel();
    std::string text, error;
    {
      const std::shared_ptr<serve::Engine> engine = make(length, rows);
      if (parallel.everyone().rank() == 0) {
        try {
          text =
              to_json(Collector(*engine, *tokenizer_, prompts, group, sampling_, key, max_tokens, sink).run()).dump();
        } catch (const std::exception& problem) {
          error = problem.what();
        }
      }
    }
    text = broadcast_text(error.empty() ? text : "!" + error, parallel, model_->options().device);
    require<Error>(!text.starts_with("!"), text.substr(1));
    return from_json(Json::parse(text));
  }

 private:
  int64_t sequences_at_once() const {
    return model_->options().device.is_cpu() ? kSequencesAtOnce : kGpuSequencesAtOnce;
  }

  // In whole pages, so that the answers of tools do not make another engine each time.
  int64_t room_for(int64_t length) const {
    const int64_t context = model_->config().max_position_embeddings;
    return context > 0 ? std::max(length, std::min(full_pages(length), context)) : full_pages(length);
  }

  std::shared_ptr<serve::Engine> make(int64_t length, int64_t rows) {
    length_ = room_for(length);
    rows_ = rows;
    serve::EngineOptions options;
    options.max_num_seqs = std::min(rows, sequences_at_once());
    options.max_model_len = length_;
    options.page_size = kPageSize;
    // As many pages as the sequences that run at once can fill: the rest of the memory is the optimizer's.
    options.num_pages = (full_pages(length_) / kPageSize + 1) * options.max_num_seqs;
    // While a GPU computes a step the host finishes the one before.
    options.async_scheduling = !model_->options().device.is_cpu() && !is_shared(*model_);
    // Without a tokenizer: texts are made of whole completions, not token by token between two steps.
    return serve::make_engine(model_, nullptr, options);
  }

  std::shared_ptr<BaseModule> model_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  RolloutArguments arguments_;
  serve::SamplingParams sampling_;
  std::shared_ptr<serve::Engine> engine_;
  int64_t length_ = 0, rows_ = 0;
};

}  // namespace

LimitedRollouts make_limited_rollouts(std::shared_ptr<BaseModule> model, const AutoTokenizer& tokenizer,
                                      const RolloutArguments& arguments) {
  auto rollouts = std::make_shared<EngineRollouts>(std::move(model), tokenizer.shared(), arguments);
  return [rollouts](const std::vector<std::vector<int64_t>>& prompts, int64_t group, const RandomKey& key,
                    const std::vector<int64_t>& max_tokens,
                    CompletionSink* sink) { return rollouts->run(prompts, group, key, max_tokens, sink); };
}

RolloutFunction make_rollouts(std::shared_ptr<BaseModule> model, const AutoTokenizer& tokenizer,
                              const RolloutArguments& arguments) {
  return [rollouts = make_limited_rollouts(std::move(model), tokenizer, arguments)](
             const std::vector<std::vector<int64_t>>& prompts, int64_t group, const RandomKey& key,
             CompletionSink* sink) { return rollouts(prompts, group, key, {}, sink); };
}

double Completion::own_tokens() const {
  return own.empty() ? static_cast<double>(ids.size()) : std::accumulate(own.begin(), own.end(), 0.0);
}

}  // namespace easydel

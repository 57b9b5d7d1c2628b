#include "easydel/serve/engine/drafter.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <unordered_map>

#include "easydel/core/error.h"
#include "easydel/infra/base_module.h"
#include "easydel/serve/engine/engine.h"
#include "easydel/serve/engine/runner.h"
#include "easydel/serve/engine/sampler.h"
#include "easydel/sharding/parallel.h"

namespace easydel::serve {

std::vector<int32_t> find_ngram(std::span<const int32_t> tokens, int64_t shortest, int64_t longest, int64_t count) {
  const auto length = static_cast<int64_t>(tokens.size());
  for (int64_t size = std::min(longest, length - 1); size >= shortest; --size) {
    const auto end = tokens.last(static_cast<std::size_t>(size));
    for (int64_t at = length - size - 1; at >= 0; --at) {
      const auto begin = tokens.begin() + at;
      if (!std::equal(end.begin(), end.end(), begin)) continue;
      const auto next = begin + size;
      return {next, next + std::min<int64_t>(count, tokens.end() - next)};
    }
  }
  return {};
}

namespace {

class NgramDrafter final : public Drafter {
 public:
  NgramDrafter(int64_t shortest, int64_t longest) : shortest_(shortest), longest_(longest) {}
  void propose(const std::vector<ActiveRequest*>& requests, const std::vector<int64_t>& limits) override {
    for (std::size_t i = 0; i < requests.size(); ++i) {
      Sequence& sequence = *requests[i]->sequence;
      sequence.drafts = find_ngram(sequence.tokens, shortest_, longest_, limits[i]);
    }
  }

 private:
  int64_t shortest_, longest_;
};

// A smaller model of the same vocabulary. It draws with the number that the model itself will draw with, so that both
// agree where their distributions do.
class ModelDrafter final : public Drafter {
 public:
  ModelDrafter(const std::shared_ptr<BaseModule>& model, int64_t page_size, int64_t num_pages, int64_t max_model_len,
               int64_t max_tokens)
      : runner_(model, std::make_shared<RaggedPagesCache>(metadata(*model, page_size, num_pages, max_model_len))),
        page_size_(page_size),
        max_tokens_(max_tokens) {
    runner_.tell_of_drafts();
  }

  Runner* runner() override { return &runner_; }
  void propose(const std::vector<ActiveRequest*>& requests, const std::vector<int64_t>& limits) override {
    std::vector<State*> states;
    for (ActiveRequest* request : requests) {
      State& state = states_[request->id];
      // What it guessed beyond the tokens that were right is computed anew.
      state.computed = request->sequence->preemptions == state.preemptions
                           ? std::min(state.computed, request->sequence->length() - 1)
                           : 0;
      state.preemptions = request->sequence->preemptions;
      states.push_back(&state);
    }
    const int64_t most = limits.empty() ? 0 : *std::max_element(limits.begin(), limits.end());
    for (int64_t round = 0; round < most; ++round) {
      if (!draft_one(requests, limits, states, round)) break;
    }
  }
  void forget(RequestId id) override { states_.erase(id); }

 private:
  struct State {
    int64_t computed = 0, preemptions = 0;
  };

  static RaggedPagesMetadata metadata(const BaseModule& model, int64_t page_size, int64_t num_pages, int64_t length) {
    const Parallel* parallel = model.parallel().get();
    const int64_t parts = parallel ? parallel->mesh().size(parallel->sequence()) : 1;
    RaggedPagesMetadata metadata = model.create_paged_metadata(0.9, page_size / parts, length);
    metadata.num_pages = num_pages;
    return metadata;
  }

  // One more token of every request that wants one and has a page for it. What the model skipped, as it found a prefix,
  // and what it computed in chunks is new here: no more at once than it may have, so that some get theirs later.
  bool draft_one(const std::vector<ActiveRequest*>& requests, const std::vector<int64_t>& limits,
                 const std::vector<State*>& states, int64_t round) {
    StepInputs inputs;
    std::vector<SampledPart> parts;
    int64_t left = max_tokens_;
    for (std::size_t i = 0; i < requests.size() && left > 0; ++i) {
      Sequence& sequence = *requests[i]->sequence;
      const int64_t known = sequence.length() + round;
      const auto room = static_cast<int64_t>(sequence.pages.size()) * page_size_;
      if (requests[i]->matcher || round >= limits[i] || round != static_cast<int64_t>(sequence.drafts.size()) ||
          known > room)
        continue;
      State& state = *states[i];
      const int64_t count = std::min(known - state.computed, left);
      left -= count;
      for (int64_t at = state.computed; at < state.computed + count; ++at)
        inputs.tokens.push_back(at < sequence.length()
                                    ? sequence.tokens[static_cast<std::size_t>(at)]
                                    : sequence.drafts[static_cast<std::size_t>(at - sequence.length())]);
      inputs.parts.push_back({0, count, sequence.pages, state.computed});
      inputs.adapters.push_back(-1);
      state.computed += count;
      if (state.computed < known) continue;
      inputs.logit_places.push_back(static_cast<int64_t>(inputs.tokens.size()) - 1);
      parts.push_back({requests[i], static_cast<int64_t>(parts.size()), {}});
    }
    if (inputs.parts.empty()) return false;
    const at::Tensor logits = runner_.run(inputs).logits;
    if (parts.empty()) return false;
    const std::vector<Chosen> chosen = choose_drafts(logits, parts, round);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (chosen[i].is_valid) parts[i].request->sequence->drafts.push_back(chosen[i].tokens.front());
    }
    return true;
  }

  // As if the drafts so far were tokens.
  static std::vector<Chosen> choose_drafts(const at::Tensor& logits, const std::vector<SampledPart>& parts,
                                           int64_t round) {
    for (const SampledPart& part : parts) {
      Sequence& sequence = *part.request->sequence;
      sequence.tokens.insert(sequence.tokens.end(), sequence.drafts.begin(), sequence.drafts.end());
    }
    std::vector<Chosen> chosen = choose_tokens(logits, parts);
    for (const SampledPart& part : parts) {
      Sequence& sequence = *part.request->sequence;
      sequence.tokens.resize(sequence.tokens.size() - static_cast<std::size_t>(round));
    }
    return chosen;
  }

  Runner runner_;
  int64_t page_size_, max_tokens_;
  std::unordered_map<RequestId, State> states_;
};

}  // namespace

std::unique_ptr<Drafter> make_drafter(const EngineOptions& options, const BaseModule& model, int64_t page_size,
                                      int64_t num_pages, int64_t max_model_len) {
  const int64_t vocab_size = model.config().vocab_size;
  const bool guesses = options.num_speculative_tokens != 0, is_ngram = options.speculative_method == "ngram";
  for (const auto& [name, is_set] :
       {std::pair("ngram_max", options.ngram_max.has_value()), std::pair("ngram_min", options.ngram_min.has_value())}) {
    require<ConfigError>(!is_set || guesses, "[engine] ", name,
                         " applies only to speculative decoding. Set num_speculative_tokens.");
    require<ConfigError>(!is_set || is_ngram, "[engine] ", name,
                         " applies only to n-gram speculation; got speculative_method \"", options.speculative_method,
                         "\". Leave it out.");
  }
  require<ConfigError>(!options.draft_model || (guesses && !is_ngram),
                       "[engine] draft_model needs speculative_method draft and num_speculative_tokens; got \"",
                       options.speculative_method, "\" and ", options.num_speculative_tokens, ".");
  if (!guesses) return nullptr;
  require<ConfigError>(options.num_speculative_tokens > 0 && options.num_speculative_tokens <= 64,
                       "[engine] num_speculative_tokens must be from 0 to 64; got ", options.num_speculative_tokens,
                       ".");
  if (is_ngram) {
    const int64_t least = options.ngram_min.value_or(1), most = options.ngram_max.value_or(4);
    require<ConfigError>(least > 0 && most >= least, "[engine] ngram_min must be positive and at most ngram_max; got ",
                         least, " and ", most, ".");
    return std::make_unique<NgramDrafter>(least, most);
  }
  require<ConfigError>(options.speculative_method == "draft",
                       "[engine] speculative_method must be ngram or draft; got \"", options.speculative_method, "\".");
  require<ConfigError>(options.draft_model != nullptr, "[engine] speculative_method draft needs draft_model.");
  require<ConfigError>(options.draft_model->config().vocab_size == vocab_size, "[engine] the draft model has a ",
                       "vocabulary of ", options.draft_model->config().vocab_size, " tokens, the model one of ",
                       vocab_size, ": they must be the same.");
  const auto *drafts = options.draft_model->parallel().get(), *own = model.parallel().get();
  require<NotSupportedError>(!drafts || (own && own->mesh().mesh() == drafts->mesh().mesh()),
                             "[engine] a draft model must be unsharded, or on the model's mesh; got a draft model on ",
                             drafts ? drafts->mesh().mesh().to_string() : "", " and the model on ",
                             own ? own->mesh().mesh().to_string() : "one device", ".");
  const int64_t most = options.max_num_batched_tokens > 0 ? options.max_num_batched_tokens : max_model_len;
  return std::make_unique<ModelDrafter>(options.draft_model, page_size, num_pages, max_model_len, most);
}

}  // namespace easydel::serve

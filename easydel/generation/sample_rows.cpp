// Greedy and sampling: every row for itself.
#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

#include "easydel/core/error.h"
#include "easydel/generation/candidates.h"
#include "easydel/generation/sampling.h"
#include "easydel/generation/search.h"
#include "easydel/operations/kernels/cuda/paged/paged_attention.h"

namespace easydel {
namespace {

// Steps between two looks at the device, when nothing on the host needs each token.
constexpr int64_t kStepsBetweenChecks = 8;

// Tokens of all rows, with room that doubles.
class TokenBuffer {
 public:
  explicit TokenBuffer(const at::Tensor& prompt) : length_(prompt.size(1)) {
    tokens_ = at::empty({prompt.size(0), length_ + 64}, prompt.options());
    all().copy_(prompt);
  }
  at::Tensor all() const { return tokens_.narrow(1, 0, length_); }
  int64_t length() const { return length_; }
  void append(const at::Tensor& column) { next_column().copy_(column); }
  // Whose tokens the caller fills in.
  at::Tensor next_column() {
    if (length_ == tokens_.size(1)) {
      const at::Tensor larger = at::empty({tokens_.size(0), 2 * length_}, tokens_.options());
      larger.narrow(1, 0, length_).copy_(tokens_);
      tokens_ = larger;
    }
    return tokens_.select(1, length_++);
  }
  void drop_column() { --length_; }

 private:
  at::Tensor tokens_;
  int64_t length_;
};

// Which rows still run, on the device: what the host knows of it is some steps old.
class Rows {
 public:
  Rows(int64_t count, const at::Tensor& like)
      : running_(at::ones({count}, like.options().dtype(at::kBool))),
        lengths_(at::zeros({count}, like.options())),
        invalid_(at::zeros({count}, like.options().dtype(at::kBool))) {}

  const at::Tensor& running() const { return running_; }
  // The tokens of the greatest scores, appended and counted: all of a step on a GPU in one launch or two; nullopt
  // where there is no kernel for that.
  std::optional<at::Tensor> append_greatest(const at::Tensor& scores, int64_t pad, TokenBuffer& tokens) {
    if (!scores.is_cuda()) return std::nullopt;
    const at::Tensor column = tokens.next_column();
    auto chosen = operations::cuda_paged::append_largest(scores, {running_, column, lengths_, invalid_, pad});
    if (!chosen) tokens.drop_column();
    return chosen;
  }
  void count_token(const at::Tensor& invalid) {
    lengths_.add_(running_);
    invalid_.logical_or_(invalid.logical_and(running_));
  }
  void end(const at::Tensor& done) { running_ = running_.logical_and(done.logical_not()); }

  // Waits for the device. Throws when a running row's scores allowed no token.
  bool any_running(int64_t step) const {
    const at::Tensor state = at::stack({running_, invalid_}).to(at::kCPU);
    if (state[1].any().item<bool>()) {
      fail<Error>("[generate] the scores of row ", state[1].to(at::kLong).argmax().item<int64_t>(),
                  " are NaN, or leave no possible token, at new token ", step + 1,
                  ". Set remove_invalid_values to replace them.");
    }
    return state[0].any().item<bool>();
  }
  std::vector<int64_t> lengths() const {
    const at::Tensor host = lengths_.to(at::kCPU).contiguous();
    return {host.const_data_ptr<int64_t>(), host.const_data_ptr<int64_t>() + host.numel()};
  }

 private:
  at::Tensor running_, lengths_, invalid_;
};

// The greatest of each row, and where it is.
std::tuple<at::Tensor, at::Tensor> greatest(const at::Tensor& scores) {
  if (!scores.is_cuda()) return scores.max(-1);
  const at::Tensor places = operations::cuda_paged::argmax_rows(scores);
  return {scores.gather(1, places.unsqueeze(1)).squeeze(1), places};
}

void stream(const Streamer& streamer, const at::Tensor& tokens, const at::Tensor& running) {
  const at::Tensor host = at::where(running, tokens, -1).to(at::kCPU).contiguous();
  streamer({host.const_data_ptr<int64_t>(), static_cast<std::size_t>(host.numel())});
}

}  // namespace

GenerateOutput sample_rows(Search& s) {
  const GenerationConfig& config = s.config;
  const int64_t count = s.input_ids.size(0);
  const int64_t prompt = s.input_ids.size(1);
  const bool samples = config.samples();
  const bool wants_scores = *config.output_scores || !s.options.stopping_criteria.empty();
  const bool looks_at_tokens = s.options.streamer || !s.criteria.empty();
  const int64_t between = s.input_ids.is_cpu() || looks_at_tokens ? 1 : kStepsBetweenChecks;

  TokenBuffer tokens(s.input_ids);
  Rows rows(count, s.input_ids);
  UniformStream uniform(s.options.prng_key, s.streams, s.input_ids.device());
  EosTokenCriteria eos(config.eos_token_id);
  std::vector<at::Tensor> log_probs;
  GenerateOutput out;
  std::optional<FinishReason> ended;

  at::Tensor logits = s.step.prefill();
  for (int64_t step = 0;; ++step) {
    at::Tensor scores = s.processors(tokens.all(), logits);
    at::Tensor chosen, invalid;
    if (std::optional<at::Tensor> done; !samples && (done = rows.append_greatest(scores, s.pad_token_id, tokens))) {
      chosen = *done;
    } else if (samples) {
      const Candidates candidates = find_candidates(config, s.warpers, tokens.all(), scores);
      chosen = candidates.sample(uniform.at_step(step));
      invalid = chosen.lt(0);
      chosen = chosen.clamp_min(0);
      if (wants_scores) scores = candidates.all_scores(scores.size(1));
    } else {
      at::Tensor best;
      std::tie(best, chosen) = greatest(scores);  // of which a NaN counts as the greatest
      invalid = best.gt(-std::numeric_limits<double>::infinity()).logical_not();
    }
    if (invalid.defined()) {  // not yet appended
      chosen = at::where(rows.running(), chosen, s.pad_token_id);
      tokens.append(chosen);
      rows.count_token(invalid);
    }
    if (*config.output_scores) out.scores.push_back(scores);
    if (*config.output_logits) out.logits.push_back(logits);
    if (*config.output_log_probs) {
      const at::Tensor all = logits.log_softmax(-1);
      log_probs.push_back(all.gather(1, chosen.unsqueeze(1)).squeeze(1).masked_fill(rows.running().logical_not(), 0));
    }
    if (s.options.streamer) stream(s.options.streamer, chosen, rows.running());
    if (!config.eos_token_id.empty()) rows.end(eos(tokens.all(), scores));
    for (const StoppingCriteriaPtr& criterion : s.criteria) rows.end(ask(*criterion, tokens.all(), scores));

    const bool full = tokens.length() >= *config.max_length;
    if ((step + 1) % between == 0 || full) {
      if (!rows.any_running(step)) break;
    }
    if (full) break;
    if ((ended = s.ended())) {
      rows.any_running(step);
      break;
    }
    logits = s.step.next(chosen);
  }

  const at::Tensor running = rows.running().to(at::kCPU);
  out.lengths = rows.lengths();
  const int64_t longest = *std::max_element(out.lengths.begin(), out.lengths.end());
  out.sequences = tokens.all().narrow(1, 0, prompt + longest);
  for (auto* steps : {&out.scores, &out.logits, &log_probs}) {
    if (static_cast<int64_t>(steps->size()) > longest) steps->resize(static_cast<std::size_t>(longest));
  }
  if (!log_probs.empty()) out.log_probs = at::stack(log_probs, 1);
  for (int64_t row = 0; row < count; ++row) {
    out.finish_reasons.push_back(running[row].item<bool>() ? ended.value_or(FinishReason::Length) : FinishReason::Stop);
  }
  return out;
}

}  // namespace easydel

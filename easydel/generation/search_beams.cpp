// Beam search with transformers' semantics, and beam sampling.
// Letters: B prompts, N beams, K candidates of a step, T tokens so far, V vocabulary.
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "easydel/core/error.h"
#include "easydel/generation/sampling.h"
#include "easydel/generation/search.h"

namespace easydel {
namespace {

constexpr double kOut = -1.0e9;  // added to the score of what must not be chosen

// Rows `indices` [B, M] of [B, N, ...].
at::Tensor pick(const at::Tensor& tensor, const at::Tensor& indices) {
  if (tensor.dim() == 2) return tensor.gather(1, indices);
  return tensor.gather(1, indices.unsqueeze(-1).expand({-1, -1, tensor.size(2)}));
}

at::Tensor appended(const at::Tensor& tensor, const at::Tensor& column) {
  return at::cat({tensor, column.unsqueeze(-1)}, -1);
}

// Sequences and what is known of them; [B, N or K, …].
struct Beams {
  at::Tensor tokens;     // […, T]
  at::Tensor scores;     // sums of log-probabilities; of complete ones, divided by the length penalty
  at::Tensor origins;    // […, new] which beam each token came from
  at::Tensor log_probs;  // […, new] of the model itself; undefined unless requested

  Beams picked(const at::Tensor& indices) const {
    return {pick(tokens, indices), pick(scores, indices), pick(origins, indices),
            log_probs.defined() ? pick(log_probs, indices) : at::Tensor()};
  }
};

at::Tensor joined(const at::Tensor& a, const at::Tensor& b) { return a.defined() ? at::cat({a, b}, 1) : at::Tensor(); }

class BeamSearch {
 public:
  explicit BeamSearch(Search& search)
      : s_(search),
        config_(search.config),
        eos_(config_.eos_token_id),
        beams_(config_.beams()),
        prompts_(search.input_ids.size(0) / beams_),
        prompt_(search.input_ids.size(1)),
        candidates_(beam_candidates(config_)) {
    const at::TensorOptions ints = search.input_ids.options();
    const at::TensorOptions floats = ints.dtype(at::kFloat);
    running_.tokens = search.input_ids.view({prompts_, beams_, prompt_});
    // All beams of a prompt are the same at first: only the first one counts, or all would go the same way.
    running_.scores = at::zeros({prompts_, beams_}, floats);
    running_.scores.narrow(1, 1, beams_ - 1).fill_(kOut);
    running_.origins = at::empty({prompts_, beams_, 0}, ints);
    if (*config_.output_log_probs) running_.log_probs = at::empty({prompts_, beams_, 0}, floats);
    complete_ = running_;
    complete_.scores = at::full({prompts_, beams_}, kOut, floats);
    is_complete_ = at::zeros({prompts_, beams_}, ints.dtype(at::kBool));
    reasons_ = at::full({prompts_, beams_}, static_cast<int64_t>(FinishReason::Length), ints);
    improvable_ = at::ones({prompts_, 1}, ints.dtype(at::kBool));
    batch_offset_ = (at::arange(prompts_, ints) * beams_).unsqueeze(1);
    is_top_ = at::arange(candidates_, ints).lt(beams_).unsqueeze(0);
  }

  GenerateOutput run() {
    at::Tensor logits = s_.step.prefill();
    for (int64_t step = 0; advance(logits, step); ++step) {
      const at::Tensor last = running_.origins.select(2, step).flatten();
      s_.step.reorder(last);
      logits = s_.step.next(running_.tokens.select(2, prompt_ + step).flatten());
    }
    return output();
  }

 private:
  // One more token of every beam. False when the search is over.
  bool advance(const at::Tensor& logits, int64_t step) {
    const at::Tensor own = logits.log_softmax(-1);
    const at::Tensor processed = s_.processors(running_.tokens.flatten(0, 1), own);
    if (*config_.output_logits) logits_.push_back(logits);
    if (*config_.output_scores) scores_.push_back(processed);

    const at::Tensor sums = (processed.view({prompts_, beams_, -1}) + running_.scores.unsqueeze(-1)).flatten(1);
    at::Tensor chosen;
    if (config_.samples()) {
      chosen = sample_without_replacement(sums, candidates_, s_.options.prng_key, s_.streams, step);
    } else {
      chosen = std::get<1>(sums.topk(candidates_));
    }
    const int64_t vocab = logits.size(1);
    const at::Tensor beam = chosen.floor_divide(vocab);
    Beams candidates = running_.picked(beam);
    candidates.tokens = appended(candidates.tokens, chosen.remainder(vocab));
    candidates.scores = sums.gather(1, chosen);
    candidates.origins = appended(candidates.origins, beam + batch_offset_);
    if (candidates.log_probs.defined()) {
      candidates.log_probs = appended(candidates.log_probs, own.view({prompts_, -1}).gather(1, chosen));
    }

    const at::Tensor hits = find_ended(candidates.tokens);
    const at::Tensor going_on = candidates.scores + hits.to(at::kFloat) * kOut;
    running_ = candidates.picked(std::get<1>(going_on.topk(beams_)));
    running_.scores = std::get<0>(going_on.topk(beams_));
    complete(candidates, hits, step);
    judge(step);

    const bool enough = config_.early_stopping == EarlyStopping::True;
    const at::Tensor goes_on = improvable_.any().logical_and(hits.all().logical_not());
    const at::Tensor state =
        at::stack({enough ? goes_on.logical_and(is_complete_.all().logical_not()) : goes_on, sums.isnan().any()})
            .to(at::kCPU);
    require<Error>(!state[1].item<bool>(), "[generate] the scores of new token ", step + 1,
                   " are NaN. Set remove_invalid_values to replace them.");
    return state[0].item<bool>();
  }

  // Candidates that end with their last token, [B, K].
  at::Tensor find_ended(const at::Tensor& tokens) {
    const at::Tensor rows = tokens.flatten(0, 1);
    at::Tensor stopped = at::zeros({rows.size(0)}, rows.options().dtype(at::kBool));
    if (!config_.eos_token_id.empty()) stopped = eos_(rows, {});
    for (const StoppingCriteriaPtr& criterion : s_.criteria) stopped = stopped.logical_or(ask(*criterion, rows, {}));
    stopped = stopped.view({prompts_, candidates_});
    const std::optional<FinishReason> ended = tokens.size(2) >= *config_.max_length ? FinishReason::Length : s_.ended();
    const auto number = [](FinishReason reason) { return static_cast<int64_t>(reason); };
    candidate_reasons_ = at::where(stopped, number(FinishReason::Stop), number(ended.value_or(FinishReason::Length)));
    return ended ? at::ones_like(stopped) : stopped;
  }

  // Takes new complete candidates in where they are better than earlier ones. Only the best N count: the others are
  // there so that N can go on.
  void complete(const Beams& candidates, const at::Tensor& hits, int64_t step) {
    const at::Tensor just = hits.logical_and(is_top_);
    at::Tensor scores = candidates.scores / std::pow(static_cast<double>(step + 1), *config_.length_penalty);
    if (config_.early_stopping == EarlyStopping::True) {
      scores = scores + is_complete_.all(-1, /*keepdim=*/true).to(at::kFloat) * kOut;
    }
    scores = scores + improvable_.logical_not().to(at::kFloat) * kOut;
    scores = scores + just.logical_not().to(at::kFloat) * kOut;

    const auto grown = [](const at::Tensor& tensor, const at::Scalar& fill) {
      return tensor.defined() ? at::constant_pad_nd(tensor, {0, 1}, fill) : tensor;
    };
    const Beams all{joined(grown(complete_.tokens, fill()), candidates.tokens), joined(complete_.scores, scores),
                    joined(grown(complete_.origins, -1), candidates.origins),
                    joined(grown(complete_.log_probs, 0), candidates.log_probs)};
    const at::Tensor best = std::get<1>(all.scores.topk(beams_));
    complete_ = all.picked(best);
    is_complete_ = pick(joined(is_complete_, just), best);
    reasons_ = pick(joined(reasons_, candidate_reasons_), best);
  }

  // Whether running beams may still beat the complete ones of their prompt.
  void judge(int64_t step) {
    const bool longest = config_.early_stopping == EarlyStopping::Never && *config_.length_penalty > 0.0;
    const auto length = static_cast<double>(longest ? *config_.max_length - prompt_ : step + 1);
    const at::Tensor hoped = running_.scores.narrow(1, 0, 1) / std::pow(length, *config_.length_penalty);
    const at::Tensor worst = at::where(is_complete_, complete_.scores.amin(1, /*keepdim=*/true), kOut);
    improvable_ = improvable_.logical_and(hoped.gt(worst).any(-1, /*keepdim=*/true));
  }

  // transformers takes a pad_token_id of 0 for none here.
  int64_t fill() const {
    if (config_.eos_token_id.empty() || config_.pad_token_id.value_or(0) != 0) return s_.pad_token_id;
    return *config_.eos_token_id.begin();
  }

  GenerateOutput output() {
    const int64_t returned = *config_.num_return_sequences;
    const auto best = [&](const at::Tensor& tensor) { return tensor.narrow(1, 0, returned).flatten(0, 1); };
    GenerateOutput out;
    out.beam_indices = best(complete_.origins);
    const at::Tensor lengths = out.beam_indices.ge(0).sum(1).to(at::kCPU).contiguous();
    out.lengths.assign(lengths.const_data_ptr<int64_t>(), lengths.const_data_ptr<int64_t>() + lengths.numel());
    const int64_t longest = *std::max_element(out.lengths.begin(), out.lengths.end());
    out.beam_indices = out.beam_indices.narrow(1, 0, longest);
    out.sequences = best(complete_.tokens).narrow(1, 0, prompt_ + longest);
    out.sequences_scores = best(complete_.scores);
    if (complete_.log_probs.defined()) out.log_probs = best(complete_.log_probs).narrow(1, 0, longest);
    const at::Tensor reasons = best(reasons_).to(at::kCPU);
    for (int64_t row = 0; row < reasons.size(0); ++row) {
      out.finish_reasons.push_back(static_cast<FinishReason>(reasons[row].item<int64_t>()));
    }
    out.scores = std::move(scores_);
    out.logits = std::move(logits_);
    return out;
  }

  Search& s_;
  const GenerationConfig& config_;
  EosTokenCriteria eos_;
  int64_t beams_, prompts_, prompt_, candidates_;
  Beams running_, complete_;
  at::Tensor is_complete_, reasons_, candidate_reasons_;
  at::Tensor improvable_;             // [B, 1]
  at::Tensor batch_offset_, is_top_;  // [B, 1], [1, K]
  std::vector<at::Tensor> scores_, logits_;
};

}  // namespace

GenerateOutput search_beams(Search& search) { return BeamSearch(search).run(); }

}  // namespace easydel

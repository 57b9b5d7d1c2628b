// One step of the engine: plan, compute, choose, hand out.
#include <ATen/ATen.h>

#include <algorithm>

#include "easydel/serve/engine/local_engine.h"
#include "easydel/serve/engine/row_sampler.h"

namespace easydel::serve {

void LocalEngine::propose_drafts() {
  std::vector<ActiveRequest*> requests;
  std::vector<int64_t> limits;
  scheduler_->for_each([&](const Sequence& sequence, bool is_running) {
    // Only where the last token is all that is missing.
    if (!is_running || sequence.computed != sequence.length() - 1) return;
    ActiveRequest& request = *active_.at(sequence.id);
    if (request.request.kind != RequestKind::Generate) return;
    const int64_t room = request.max_length - sequence.length() - 1;
    if (room <= 0) return;
    requests.push_back(&request);
    limits.push_back(std::min(room, options_.num_speculative_tokens));
  });
  if (!requests.empty()) drafter_->propose(requests, limits);
}

namespace {

// [3, count] of tokens from `begin` on.
at::Tensor positions_of(const ActiveRequest& request, int64_t begin, int64_t count) {
  const at::Tensor counted = at::arange(begin, begin + count, at::kLong).expand({3, count});
  if (!request.image_positions.defined()) return counted;
  const int64_t prompt = request.image_positions.size(1), given = std::clamp<int64_t>(prompt - begin, 0, count);
  return at::cat({request.image_positions.slice(1, std::min(begin, prompt), std::min(begin + given, prompt)),
                  counted.slice(1, given) + request.position_shift},
                 1);
}

}  // namespace

// What the model sees in the images of the plan. Images that it does not take end their request alone.
void LocalEngine::run_tower(StepPlan& plan) {
  std::erase_if(plan.parts, [&](const StepPart& part) {
    ActiveRequest& request = *active_.at(part.sequence->id);
    const auto& places = request.image_places;
    const auto from = std::lower_bound(places.begin(), places.end(), part.begin);
    if (request.image_features.defined() || from == places.end() || *from >= part.begin + part.count) return false;
    try {
      request.image_features = runner_->image_features(*request.request.images);
      const int64_t tokens = request.image_features.size(0), wanted = static_cast<int64_t>(places.size());
      require<ShapeError>(tokens == wanted, "[engine] the images of the prompt have placeholders for ", wanted,
                          " tokens; the model computes features of ", tokens, " in them.");
      return false;
    } catch (const Error& error) {
      RequestOutput out;
      out.finish = Finish::Error;
      out.is_refusal = true;
      out.error = error.what();
      plan.tokens -= part.count;
      hand_out(request, std::move(out));
      return true;
    }
  });
}

// Single next tokens come first: the cache has a kernel for them. Those of one adapter are multiplied together.
StepInputs LocalEngine::make_inputs(StepPlan& plan, std::vector<SampledPart>& sampled) const {
  const auto place = [&](const StepPart& part) {
    return std::pair(part.count != 1, active_.at(part.sequence->id)->adapter);
  };
  const auto comes_first = [&](const StepPart& a, const StepPart& b) { return place(a) < place(b); };
  if (!std::is_sorted(plan.parts.begin(), plan.parts.end(), comes_first))
    std::stable_sort(plan.parts.begin(), plan.parts.end(), comes_first);
  StepInputs inputs;
  std::vector<at::Tensor> features, positions;
  const bool has_positions = std::any_of(plan.parts.begin(), plan.parts.end(), [&](const StepPart& part) {
    return active_.at(part.sequence->id)->image_positions.defined();
  });
  inputs.tokens.reserve(static_cast<std::size_t>(plan.tokens));
  for (const StepPart& part : plan.parts) {
    const Sequence& sequence = *part.sequence;
    ActiveRequest& request = *active_.at(sequence.id);
    const auto first = static_cast<int64_t>(inputs.tokens.size());
    const int64_t known = part.count - part.drafts;
    const int64_t given = std::min(known, sequence.length() - part.begin);
    const auto begin = sequence.tokens.begin() + part.begin;
    inputs.tokens.insert(inputs.tokens.end(), begin, begin + given);
    if (given < known) {
      inputs.chosen_places.push_back(static_cast<int64_t>(inputs.tokens.size()));
      inputs.chosen_rows.push_back(request.awaited_row);
      inputs.tokens.push_back(0);
    }
    inputs.tokens.insert(inputs.tokens.end(), sequence.drafts.begin(), sequence.drafts.begin() + part.drafts);
    inputs.parts.push_back({0, part.count, sequence.pages, part.begin});
    inputs.adapters.push_back(request.adapter);
    if (has_positions) positions.push_back(positions_of(request, part.begin, part.count));
    const auto& places = request.image_places;
    const auto from = std::lower_bound(places.begin(), places.end(), part.begin);
    const auto to = std::lower_bound(from, places.end(), part.begin + known);
    if (from != to) {
      features.push_back(request.image_features.slice(0, from - places.begin(), to - places.begin()));
      for (auto at = from; at != to; ++at) inputs.feature_places.push_back(first + *at - part.begin);
    }
    const bool generates = request.request.kind == RequestKind::Generate;
    inputs.wants_hidden |= !generates && part.reaches_end;
    if (!generates) continue;
    const bool in_prompt = part.begin < sequence.prompt_tokens;
    if (request.wants_all_logits() && in_prompt) {
      for (int64_t i = 0; i < known - 1; ++i) inputs.logit_places.push_back(first + i);
      if (!part.reaches_end) inputs.logit_places.push_back(first + known - 1);
    }
    if (!part.reaches_end) continue;
    sampled.push_back({&request,
                       static_cast<int64_t>(inputs.logit_places.size()),
                       {sequence.drafts.begin(), sequence.drafts.begin() + part.drafts}});
    for (int64_t i = known - 1; i < part.count; ++i) inputs.logit_places.push_back(first + i);
  }
  if (!inputs.chosen_places.empty()) inputs.chosen = started_->choices.tokens();
  if (!features.empty()) inputs.features = at::cat(features);
  if (has_positions) inputs.positions = at::cat(positions, 1);
  return inputs;
}

// Whether nothing that the next step needs is known only once this one is finished.
bool LocalEngine::can_wait(const std::vector<SampledPart>& sampled, const StepPlan& plan) const {
  return looks_ahead_ &&
         std::all_of(sampled.begin(), sampled.end(),
                     [](const SampledPart& part) { return needs_scores_alone(*part.request); }) &&
         std::none_of(plan.parts.begin(), plan.parts.end(), [&](const StepPart& part) {
           return active_.at(part.sequence->id)->wants_all_logits() && part.begin < part.sequence->prompt_tokens;
         });
}

void LocalEngine::step() {
  if (drafter_) propose_drafts();
  StepPlan plan = scheduler_->schedule();
  run_tower(plan);
  if (plan.empty()) return finish_started();
  std::vector<SampledPart> sampled;
  const StepInputs inputs = make_inputs(plan, sampled);
  const bool waits = can_wait(sampled, plan);
  StartedStep started;
  started.outputs = runner_->run(inputs);
  deliver();  // of the step before, while the device computes
  int64_t first_token = 0, first_logits = 0;
  std::size_t next = 0;
  for (const StepPart& part : plan.parts) {
    ActiveRequest& request = *active_.at(part.sequence->id);
    StartedStep::Part& own = started.parts.emplace_back(part, request.id, first_token, first_logits);
    if (next < sampled.size() && sampled[next].request == &request) own.choice = next++;
    first_token += part.count;
    const auto places = static_cast<int64_t>(inputs.logit_places.size());
    while (first_logits < places && inputs.logit_places[static_cast<std::size_t>(first_logits)] < first_token)
      ++first_logits;
  }
  {
    const std::lock_guard lock(mutex_);
    ++stats_.steps;
  }
  if (!sampled.empty()) started.choices = Choices(started.outputs.logits, sampled);
  finish_started();
  if (!waits) return finish(std::move(started));
  deliver();
  for (StartedStep::Part& own : started.parts) {
    const auto found = active_.find(own.request);
    if (found == active_.end()) continue;
    if (own.choice) found->second->awaited_row = sampled[*own.choice].first;
    Scheduler::start(own.part, own.choice.has_value());
  }
  started_ = std::move(started);
}

void LocalEngine::finish_started() {
  if (!started_) return;
  StartedStep step = std::move(*started_);
  started_.reset();
  finish(std::move(step));
}

void LocalEngine::finish(StartedStep step) {
  for (const auto& [part, id, first_token, first_logits, choice] : step.parts) {
    const auto found = active_.find(id);
    if (found == active_.end()) continue;  // it ended with the step before, or was cancelled
    ActiveRequest& request = *found->second;
    if (request.wants_all_logits() && part.begin < part.sequence->prompt_tokens)
      collect_prompt_logprobs(part, request, step.outputs.logits.slice(0, first_logits));
    finish_part(part, request, choice ? std::optional(step.choices.take(*choice)) : std::nullopt, step.outputs,
                first_token);
  }
}

void LocalEngine::collect_prompt_logprobs(const StepPart& part, ActiveRequest& request, const at::Tensor& logits) {
  const Sequence& sequence = *part.sequence;
  if (part.begin == 0) request.prompt_logprobs.clear();  // after a preemption, too
  const int64_t end = std::min(part.begin + part.count, sequence.prompt_tokens - 1);
  const int64_t rows = end - part.begin;
  if (rows <= 0) return;
  const at::Tensor host = logits.narrow(0, 0, rows).to(at::kCPU, at::kFloat).contiguous();
  const auto vocab = static_cast<std::size_t>(host.size(1));
  for (int64_t row = 0; row < rows; ++row) {
    const std::span<const float> scores(host.const_data_ptr<float>() + static_cast<std::size_t>(row) * vocab, vocab);
    const int32_t token = sequence.tokens[static_cast<std::size_t>(part.begin + row + 1)];
    request.prompt_logprobs.push_back(find_logprobs(scores, token, *request.sampling().prompt_logprobs));
  }
}

void LocalEngine::finish_part(const StepPart& part, ActiveRequest& request, std::optional<Chosen> chosen,
                              const StepOutputs& outputs, int64_t first_token) {
  const bool computes_prompt = part.begin < part.sequence->prompt_tokens;
  if (computes_prompt) {
    const std::lock_guard lock(mutex_);
    stats_.prompt_tokens += std::min(part.count, part.sequence->prompt_tokens - part.begin);
  }
  if (chosen) return add_tokens(part, request, *chosen);
  scheduler_->advance(part, {});
  if (!part.reaches_end) return;
  RequestOutput out;
  const at::Tensor state = outputs.hidden.select(0, first_token + part.count - 1).to(at::kCPU, at::kFloat).contiguous();
  out.embedding.assign(state.const_data_ptr<float>(), state.const_data_ptr<float>() + state.numel());
  out.finish = Finish::Stop;
  hand_out(request, std::move(out));
}

std::optional<Finish> LocalEngine::end_of(ActiveRequest& request, int32_t token, RequestOutput& out,
                                          bool& is_shown) const {
  const SamplingParams& sampling = request.sampling();
  const auto is_in = [&](const std::vector<int32_t>& ids) {
    return std::find(ids.begin(), ids.end(), token) != ids.end();
  };
  const bool is_stop = is_in(sampling.stop_token_ids);
  if (is_stop) out.stop_reason = token;
  const bool ends = is_stop || is_in(request.end_tokens);
  is_shown = !ends || sampling.include_stop_str_in_output;
  if (request.text && is_shown && !sampling.stop.empty()) {  // other texts are made when they are delivered
    out.text += request.text->add(token);
    if (request.text->matched()) {
      out.stop_reason = *request.text->matched();
      return Finish::Stop;
    }
  }
  if (ends) return Finish::Stop;
  const auto output = request.output_tokens() + static_cast<int64_t>(out.tokens.size());
  if (request.sequence->prompt_tokens + output >= request.max_length) return Finish::Length;
  return std::nullopt;
}

void LocalEngine::add_tokens(const StepPart& part, ActiveRequest& request, Chosen& chosen) {
  RequestOutput out;
  int64_t shown = 0;
  for (const int32_t token : chosen.tokens) {
    bool is_shown = true;
    out.tokens.push_back(token);
    out.finish = end_of(request, token, out, is_shown);
    shown += is_shown ? 1 : 0;
    if (out.finish) break;
  }
  // The grammar has seen all chosen tokens, so that it speaks for the last one alone.
  const bool has_all = out.tokens.size() == chosen.tokens.size();
  if (out.finish != Finish::Stop && has_all && request.matcher && request.matcher->is_terminated())
    out.finish = Finish::Stop;
  {
    const std::lock_guard lock(mutex_);
    stats_.draft_tokens += part.drafts;
    stats_.accepted_tokens += std::max<int64_t>(0, static_cast<int64_t>(chosen.tokens.size()) - 1);
    stats_.generation_tokens += static_cast<int64_t>(out.tokens.size());
  }
  if (!out.finish && !chosen.is_valid) {
    out.finish = Finish::Error;
    out.error = "[engine] no token is possible: the scores are not numbers, or the settings rule every token out.";
  }
  if (request.sampling().logprobs) {
    chosen.logprobs.resize(out.tokens.size());
    out.logprobs = std::move(chosen.logprobs);
  }
  if (request.output_tokens() == 0) out.prompt_logprobs = request.prompt_logprobs;
  scheduler_->advance(part, out.tokens);
  hand_out(request, std::move(out), shown);
}

}  // namespace easydel::serve

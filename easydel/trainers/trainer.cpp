#include "easydel/trainers/trainer.h"

#include <ATen/ATen.h>

#include <cmath>
#include <csignal>
#include <cstdlib>

#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/core/log.h"
#include "easydel/infra/decoder/embedding_noise.h"
#include "easydel/optim/rules/transforms.h"
#include "easydel/sharding/parallel.h"
#include "easydel/trainers/run/gradients.h"
#include "easydel/trainers/run/stop_signal.h"
#include "easydel/trainers/run/trainer_impl.h"

namespace easydel {
namespace fs = std::filesystem;
namespace {

// One copy from the device for all of them.
Metrics to_host(const std::map<std::string, at::Tensor>& values) {
  std::vector<at::Tensor> flat;
  for (const auto& [name, value] : values) flat.push_back(value.detach().reshape({1}).to(at::kDouble));
  const at::Tensor host = at::cat(flat).to(at::kCPU);
  Metrics metrics;
  int64_t i = 0;
  for (const auto& [name, value] : values) metrics[name] = host.const_data_ptr<double>()[i++];
  return metrics;
}

// To check which rows a run was trained on: metrics.jsonl gets a "batch_checksum".
bool logs_batches() {
  static const bool wanted = std::getenv("EASYDEL_LOG_BATCHES") != nullptr;
  return wanted;
}

Json describe_row(const BatchRow& row) {
  Json json = Json::object({{"input_ids", row.input_ids}, {"labels", row.labels}, {"segment_ids", row.segment_ids}});
  if (!row.target_ids.empty()) json["target_ids"] = row.target_ids;
  return json;
}

}  // namespace

Trainer::Trainer(TrainerOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Trainer::~Trainer() = default;
TrainResult Trainer::train() { return impl_->train(); }
Metrics Trainer::evaluate() { return impl_->evaluate(); }
const State& Trainer::state() const { return impl_->state; }
int64_t Trainer::total_steps() const { return impl_->total_steps; }
fs::path Trainer::save() { return impl_->save(); }

bool Trainer::Impl::is_first() const { return !parallel() || parallel()->mesh().rank() == 0; }

std::vector<std::vector<BatchRow>> Trainer::Impl::next_rows() {
  const auto steps = static_cast<std::size_t>(args().gradient_accumulation_steps);
  std::vector<std::vector<BatchRow>> rows(steps);
  if (is_generating()) {
    std::vector<BatchRow> all = take_generated();
    for (std::size_t i = 0; i < all.size(); ++i) rows[i / (all.size() / steps)].push_back(std::move(all[i]));
    return rows;
  }
  const std::vector<data::Example> examples = loader_->next();
  for (std::size_t i = 0; i < examples.size(); ++i) {
    for (BatchRow& row : options_.objective->rows(examples[i]))
      rows[i / (examples.size() / steps)].push_back(std::move(row));
  }
  for (auto& minibatch : rows) options_.objective->link_rows(minibatch, args());
  return rows;
}

double Trainer::Impl::flops_of(const std::vector<std::vector<BatchRow>>& rows) const {
  double sum = 0;
  for (const TrainingFlops& flops : flops_) {
    for (const auto& minibatch : rows) sum += flops.of_rows(minibatch);
  }
  return sum;
}

LossContext Trainer::Impl::context(double items, double share, int64_t minibatch) const {
  LossContext context{.arguments = args(), .items = items, .share = share, .is_training = true};
  context.dropout_key = RandomKey(static_cast<uint64_t>(args().seed))
                            .fold("dropout")
                            .fold(static_cast<uint64_t>(state.step))
                            .fold(static_cast<uint64_t>(minibatch));
  return context;
}

// The step after which a signal received from now on takes effect.
void Trainer::Impl::say_next_step(int64_t step) const {
  if (is_first()) StopSignal::is_doing(StopSignal::Doing::Step, std::min(step, total_steps), directory().has_value());
}

StopReason Trainer::Impl::stop_asked_for() const {
  const auto limit = args().time_limit_seconds();
  const std::chrono::duration<double> spent = Clock::now() - begin_;
  const int signal = StopSignal::received();
  StopReason own = StopReason::Steps;
  if (is_first() && limit && spent.count() > *limit) own = StopReason::TimeLimit;
  if (signal != 0) own = signal == SIGINT ? StopReason::Sigint : StopReason::Sigterm;
  return static_cast<StopReason>(static_cast<int>(max_over_all(static_cast<int>(own), parallel(), device())));
}

ObjectiveLoss Trainer::Impl::loss_of(const Batch& batch, const LossContext& context) const {
  const double alpha = args().neftune_noise_alpha.value_or(0);
  if (alpha == 0) return options_.objective->loss(*options_.model, batch, context);
  const EmbeddingNoise noise(*options_.model, alpha, context.dropout_key->fold("neftune"), batch.input_ids.size(1));
  ObjectiveLoss out = options_.objective->loss(*options_.model, batch, context);
  require<NotSupportedError>(noise.was_added(), "[trainer] neftune_noise_alpha must be null for a ",
                             options_.model->model_type(), " model, which embeds no tokens; got ", alpha, ".");
  return out;
}

Trainer::Impl::Step Trainer::Impl::run_step() {
  const auto begin = Clock::now();
  const std::vector<std::vector<BatchRow>> rows = next_rows();
  std::vector<double> counts;
  for (const auto& minibatch : rows) counts.push_back(options_.objective->count_items(minibatch));
  counts.push_back(flops_of(rows));
  counts = sum_over_batch(std::move(counts), parallel(), device());
  const double flops = counts.back();
  counts.pop_back();
  double items = 0;
  for (const double count : counts) items += count;
  items = std::max(items, 1.0);
  const std::map<std::string, double> totals = total_numbers(rows, parallel(), device());

  std::map<std::string, at::Tensor> sums;
  int64_t tokens = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Batch batch = make_batch(rows[i], batch_options(minibatch_rows(), args()), parallel());
    tokens += batch.tokens;
    LossContext part = context(items, counts[i] / items, static_cast<int64_t>(i));
    part.totals = totals;
    const ObjectiveLoss out = loss_of(batch, part);
    (loss_scale_.value() == 1.0 ? out.loss : out.loss * loss_scale_.value()).backward();
    const auto add = [&](const std::string& name, const at::Tensor& value) {
      at::Tensor& sum = sums[name];
      sum = sum.defined() ? sum + value.detach() : value.detach();
    };
    add("loss", out.loss);
    if (!args().performance_mode) {
      for (const auto& [name, value] : out.metrics) add(name, value);
    }
  }
  GraphState gradients = take_gradients(state.graphstate);
  require<Error>(!gradients.empty(), "[trainer] no parameter receives a gradient: is everything frozen?");
  GraphState along = companion_ ? take_gradients(companion_->graphstate) : GraphState();
  const at::NoGradGuard no_grad;
  if (loss_scale_.value() != 1.0) {
    for (const GraphState* all : {&gradients, &along}) {
      for (const auto& [path, gradient] : *all) gradient.div_(loss_scale_.value());
    }
  }
  sums["grad_norm"] = optim::global_norm(gradients, state.placement());
  if (companion_)
    sums["grad_norm"] = at::hypot(sums.at("grad_norm"), optim::global_norm(along, companion_->placement()));
  Step step{.metrics = to_host(sums)};
  say_next_step(state.step + 2);
  step.stop = stop_asked_for();
  const double norm = step.metrics.at("grad_norm");
  step.metrics["learning_rate"] = schedule_(state.step - skipped_);
  const bool finite = std::isfinite(norm) && std::isfinite(step.metrics.at("loss"));
  if (loss_scale_.value() != 1.0) step.metrics["loss_scale"] = loss_scale_.value();
  const bool scale_too_large = loss_scale_.update(finite);
  if (finite) {
    apply(std::move(gradients), std::move(along), norm);
    skipped_in_a_row_ = 0;
  } else {
    step.skipped = true;
    ++state.step;
    ++skipped_;
    if (!scale_too_large) skip(rows, step.metrics);
  }
  tokens_seen_ += tokens;
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  step.metrics["step_tokens"] = static_cast<double>(tokens);
  step.metrics["num_tokens"] = static_cast<double>(tokens_seen_);
  step.metrics["tokens_per_second"] = static_cast<double>(tokens) / seconds;
  if (flops > 0) step.metrics["tflops"] = flops / seconds / 1e12;
  step.metrics["step_seconds"] = seconds;
  if (step.skipped) step.metrics["skipped"] = 1;
  if (is_generating() && generated_step_ == 1)
    step.metrics.insert(generated_.metrics.begin(), generated_.metrics.end());
  if (!args().log_grad_norms) step.metrics.erase("grad_norm");
  if (memory_) step.metrics["memory_estimate"] = static_cast<double>(memory_estimate_);
  if (memory_) step.metrics["memory_max"] = static_cast<double>(memory_->take_max());
  if (logs_batches()) {
    double sum = 0;
    for (const auto& minibatch : rows) sum += checksum(minibatch);
    step.metrics["batch_checksum"] = sum_over_batch({sum}, parallel(), device())[0];
  }
  return step;
}

void Trainer::Impl::apply(GraphState gradients, GraphState along, double norm) {
  if (args().clip_grad) optim::clip_to_norm({&gradients, &along}, norm, *args().clip_grad);
  state = std::move(state).apply_gradients(std::move(gradients));
  if (companion_) companion_ = std::move(*companion_).apply_gradients(std::move(along));
  if (ema_) ema_->update(state.graphstate);
}

// The step is skipped. Its batch is written to disk for inspection, and too many in a row end the run.
void Trainer::Impl::skip(const std::vector<std::vector<BatchRow>>& rows, const Metrics& metrics) {
  ++skipped_in_a_row_;
  std::string written;
  if (directory()) {
    Json batch = Json::array();
    for (const auto& minibatch : rows) {
      for (const BatchRow& row : minibatch) batch.push_back(describe_row(row));
    }
    const int64_t rank = parallel() ? parallel()->mesh().rank() : 0;
    const fs::path path = *directory() / "skipped" / concat("step-", state.step, "-rank-", rank, ".json");
    make_directory(path.parent_path());
    write_file_atomically(path, Json::object({{"step", state.step},
                                              {"loss", metrics.at("loss")},
                                              {"grad_norm", metrics.at("grad_norm")},
                                              {"rows", batch}})
                                        .dump() +
                                    "\n");
    written = concat(" Its batch is in ", path.string(), ".");
  }
  const std::string what = concat("step ", state.step, " has a loss of ", metrics.at("loss"),
                                  " and a gradient norm of ", metrics.at("grad_norm"), ".", written);
  require<Error>(skipped_in_a_row_ <= args().max_skipped_steps, "[trainer] ", what, " ", skipped_in_a_row_,
                 " such steps in a row: stopping (max_skipped_steps is ", args().max_skipped_steps,
                 "). A smaller learning_rate, clip_grad or warmup_steps may help.");
  if (is_first()) log::warning("[trainer] ", what, " The step is skipped.");
}

}  // namespace easydel

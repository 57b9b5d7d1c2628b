// Checkpoints of a run.
#include <ATen/ATen.h>

#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/io/safetensors/safetensors_writer.h"
#include "easydel/sharding/parallel.h"
#include "easydel/trainers/run/trainer_impl.h"

namespace easydel {
namespace fs = std::filesystem;

// On a mesh all ranks call it: each knows the positions of its own streams.
Json Trainer::Impl::trainer_file() {
  Json streams = loader_->state();
  std::vector<Json> parts;
  for (const std::string& text : gather_texts(streams.dump(), parallel(), device())) parts.push_back(Json::parse(text));
  Json file = Json::object({{"format", 1},
                            {"trainer_type", options_.trainer_type},
                            {"step", state.step},
                            {"total_steps", total_steps},
                            {"total_batch_size", args().total_batch_size},
                            {"tokens_seen", tokens_seen_},
                            {"skipped", skipped_},
                            {"skipped_in_a_row", skipped_in_a_row_},
                            {"evaluations_without_gain", evaluations_without_gain_},
                            {"loss_scale", loss_scale_.to_json()},
                            {"data", data::merge_states(parts)}});
  file["best"] = best_ ? Json(*best_) : Json();
  file["best_step"] = best_step_ ? Json(*best_step_) : Json();
  file["evaluated_step"] = evaluated_step_ ? Json(*evaluated_step_) : Json();
  if (Json own = options_.objective->state(); !own.is_null()) file["objective"] = std::move(own);
  file["run"] = run_;
  file["arguments"] = args().to_json(options_.trainer_type);
  return file;
}

fs::path Trainer::Impl::save() {
  require<ConfigError>(directory().has_value(), "[trainer] nothing can be saved without a save_directory.");
  writer_.wait();  // before another copy is made
  const fs::path path = checkpoint_path(*directory(), state.step);
  const std::string text = trainer_file().dump(2) + "\n";
  std::optional<NamedTensors> average;
  if (ema_) {
    average.emplace();
    const at::NoGradGuard no_grad;
    for (const ParameterInfo& info : *state.graphdef.parameters) {
      const at::Tensor* part = ema_->params().find(info.path);
      if (!part) continue;
      const at::Tensor whole = info.sharding ? info.sharding->gather_whole(*part) : *part;
      if (is_first()) average->emplace_back(info.path, whole.to(at::kCPU, whole.scalar_type(), false, true));
    }
  }
  std::string rollouts;
  if (const Json own = generated_file(); !own.is_null()) {
    for (const std::string& part : gather_texts(own.dump(), parallel(), device()))
      rollouts += (rollouts.empty() ? "[" : ",\n") + part;
    rollouts += "]\n";
  }
  std::optional<State> along;  // on the first rank
  if (companion_) {
    companion_->step = state.step;
    along = companion_->snapshot(args().save_optimizer_state);
  }
  std::optional<State> reference;  // on the first rank
  if (const auto moving = options_.objective->moving_reference()) {
    State own = moving->to_state();
    own.step = state.step;
    reference = own.snapshot(false);
  }
  SaveStateOptions save{.verbose = false, .save_optimizer = args().save_optimizer_state};
  save.also = [text, rollouts, average = std::move(average), along = std::move(along), reference = std::move(reference),
               with_optimizer = args().save_optimizer_state](const fs::path& fresh) {
    if (along) along->save_state(fresh / kCompanionFolder, {.verbose = false, .save_optimizer = with_optimizer});
    if (reference) reference->save_state(fresh / kReferenceFolder, {.verbose = false, .save_optimizer = false});
    if (average) save_safetensors(fresh / "ema.safetensors", *average);
    if (!rollouts.empty()) write_file_atomically(fresh / "rollouts.json", rollouts);
    write_file_atomically(fresh / "trainer.json", text);
  };
  std::vector<int64_t> kept;
  if (best_step_) kept.push_back(*best_step_);
  const auto limit = args().save_total_limit;
  // On the first rank, when the checkpoint is complete.
  const auto saved = [push = push_.get(), directory = *directory(), limit, kept,
                      done = CheckpointDirectory{state.step, path}] {
    std::vector<int64_t> in_use = kept;
    if (push) {
      push->add(done);
      for (const int64_t step : push->steps_in_use()) in_use.push_back(step);
    }
    if (limit) remove_old_checkpoints(directory, *limit, in_use);
  };
  if (args().async_save) {
    if (std::optional<State> snapshot = state.snapshot(args().save_optimizer_state)) {
      writer_.start([snapshot = std::move(*snapshot), path, save, saved] {
        snapshot.save_state(path, save);
        saved();
      });
    }
  } else {
    state.save_state(path, save);
    if (is_first()) saved();
  }
  last_saved_ = {state.step, path};
  last_save_ = Clock::now();
  if (log_) log_->saved(state.step, path);
  if (options_.hooks.on_save) options_.hooks.on_save(state.step, path);
  return path;
}

// What an evaluation after the save found: the best step, and that it was done.
void Trainer::Impl::update_trainer_file() {
  const std::string text = trainer_file().dump(2) + "\n";
  writer_.wait();
  if (is_first()) write_file_atomically(last_saved_->path / "trainer.json", text);
}

void Trainer::Impl::finish_saving() {
  writer_.wait();
  if (parallel()) parallel()->everyone().barrier();
}

}  // namespace easydel

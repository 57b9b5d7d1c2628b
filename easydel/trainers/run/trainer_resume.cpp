// The directory of a run, and resuming from a checkpoint in it.
#include <ATen/ATen.h>

#include "easydel/core/error.h"
#include "easydel/core/log.h"
#include "easydel/infra/state/state_layout.h"
#include "easydel/io/safetensors/safetensors.h"
#include "easydel/lora/lora.h"
#include "easydel/sharding/parallel.h"
#include "easydel/trainers/run/reload_weights.h"
#include "easydel/trainers/run/run_identity.h"
#include "easydel/trainers/run/run_lock.h"
#include "easydel/trainers/run/trainer_impl.h"

namespace easydel {
namespace fs = std::filesystem;

void Trainer::Impl::load_weights_from(const fs::path& path) {
  if (const auto along = options_.objective->trained_along()) {
    require<IoError>(fs::is_directory(path / kCompanionFolder), "[resume_from] ", path.string(),
                     " has no value model: it is not a checkpoint of ", options_.trainer_type, ".");
    reload_weights(*along, path / kCompanionFolder);
  }
  if (const auto moving = options_.objective->moving_reference()) {
    require<IoError>(fs::is_directory(path / kReferenceFolder), "[resume_from] ", path.string(),
                     " has no reference, which sync_ref_model moves.");
    reload_weights(*std::const_pointer_cast<BaseModule>(moving), path / kReferenceFolder);
  }
  if (const auto names = adapter_names(*options_.model); !names.empty()) {
    for (const std::string& name : names)
      reload_adapter(*options_.model, adapter_directory(*options_.model, path, name), name);
    return;
  }
  require<ConfigError>(!fs::exists(path / "adapter"), "[resume_from] ", path.string(),
                       " is the checkpoint of a run with LoRA adapters; this run has none. Set lora_rank.");
  reload_weights(*options_.model, path);
}

std::shared_ptr<RunLock> Trainer::Impl::take_directory() {
  std::shared_ptr<RunLock> lock = std::move(options_.lock);
  if (!directory()) return lock;
  if (is_first() && !lock) lock = std::make_shared<RunLock>(*directory());
  if (parallel()) parallel()->everyone().barrier();
  return lock;
}

// A run resumes automatically only if it is the same run; otherwise resume_from must be set.
void Trainer::Impl::require_same_run(const fs::path& checkpoint, const Json& saved) const {
  const Json* before = saved.find("run");
  std::string changed;
  if (before && before->is_object()) {
    for (const std::string& difference : differences(*before, run_))
      changed += (changed.empty() ? "" : "; ") + difference;
  } else if (!args().resume_from) {
    changed = "its trainer.json does not record what it was trained from";
  }
  if (changed.empty()) return;
  if (args().resume_from) {
    if (is_first())
      log::warning("[resume_from] ", checkpoint.string(), " belongs to a run with different settings: ", changed, ".");
    return;
  }
  fail<ConfigError>(
      "[trainer] ", checkpoint.string(), " belongs to a different run: ", changed,
      ". To resume from it with these settings, use --resume latest (resume_from: latest); to start a new "
      "run, use another --output (save_directory).");
}

void Trainer::Impl::resume() {
  if (!directory() && !args().resume_from) return;
  if (!args().resume_from && !args().resume_if_possible) return;
  const auto found = find_checkpoint(args().resume_from.value_or("latest"), directory().value_or(""));
  if (!found) return;
  const Json saved = read_trainer_file(found->path);
  require_same_run(found->path, saved);
  require<ConfigError>(saved.at("total_batch_size") == Json(args().total_batch_size), "[resume_from] ",
                       found->path.string(), " was trained with total_batch_size ", saved.at("total_batch_size").dump(),
                       "; this run has ", args().total_batch_size, ". The data cannot be resumed from there.");
  require<FormatError>(saved.at("step") == Json(found->step), "[resume_from] ", found->path.string(),
                       " is the checkpoint of step ", found->step, "; its trainer.json belongs to step ",
                       saved.at("step").dump(), ".");
  load_weights_from(found->path);
  const auto state_of = [&](const BaseModule& model, const fs::path& path) {
    State next = model.to_state();
    next.tx = tx_;
    next.step = found->step;
    return has_optimizer(path) ? next.load_optimizer(path) : next.init_tx(tx_);
  };
  state = state_of(*options_.model, found->path);
  if (companion_) companion_ = state_of(*options_.objective->trained_along(), found->path / kCompanionFolder);
  if (!has_optimizer(found->path) && is_first())
    log::warning("[resume_from] ", found->path.string(),
                 " was saved without its optimizer state, which starts from scratch.");
  loader_->restore(saved.at("data"));
  restore_generated(found->path);
  if (const Json* own = saved.find("objective")) options_.objective->restore(*own);
  tokens_seen_ = saved.at("tokens_seen").as_int();
  skipped_ = saved.at("skipped").as_int();
  skipped_in_a_row_ = saved.at("skipped_in_a_row").as_int();
  evaluations_without_gain_ = saved.at("evaluations_without_gain").as_int();
  if (const Json* best = saved.find("best"); best && !best->is_null()) best_ = best->as_double();
  if (const Json* step = saved.find("best_step"); step && !step->is_null()) best_step_ = step->as_int();
  loss_scale_.load_json(saved.at("loss_scale"));
  if (const Json* step = saved.find("evaluated_step"); step && !step->is_null()) evaluated_step_ = step->as_int();
  if (!saved.contains("evaluated_step")) evaluated_step_ = found->step;  // from an older version: evaluated, then saved
  last_saved_ = found;
  if (ema_) {
    const fs::path file = found->path / "ema.safetensors";
    require<IoError>(fs::exists(file), "[resume_from] ", found->path.string(), " has no ema.safetensors.");
    const auto source = SafetensorsFile::open(file);
    GraphState average;
    for (const ParameterInfo& info : trained_parameters(state.graphdef)) {
      const at::Tensor all = source->tensor(info.path);
      average.set(info.path, (info.sharding ? take(all, info.sharding->stored()) : all)
                                 .to(device(), all.scalar_type(), false, true, at::MemoryFormat::Contiguous));
    }
    ema_->init(average);
  }
  if (is_first()) log::info("[trainer] resuming from step ", state.step, ", ", found->path.string());
}

}  // namespace easydel

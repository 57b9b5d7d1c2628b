#include "easydel/trainers/run/run_identity.h"

#include <algorithm>
#include <fstream>
#include <string_view>

#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/data/sources/data_changes.h"
#include "easydel/io/hub/hash.h"

namespace easydel {
namespace fs = std::filesystem;
namespace {

// Arguments that do not change what is learned in a step.
constexpr std::string_view kFree[] = {
    // how long
    "max_training_steps", "num_train_epochs", "per_epoch_training_steps", "training_time_limit",
    // how a step is computed: the last digits
    "gradient_accumulation_steps", "gradient_checkpointing", "lmhead_chunksize", "performance_mode", "memory_limit",
    "offload_optimizer", "logits_chunk_size", "logprob_vocab_chunk_size",
    // evaluation
    "do_train", "do_eval", "eval_batch_size", "evaluation_steps", "max_evaluation_steps", "per_epoch_evaluation_steps",
    "eval_packing", "early_stopping_patience", "early_stopping_threshold", "metric_for_best_model", "greater_is_better",
    "load_best_model_at_end",
    // checkpoints
    "save_directory", "save_steps", "save_interval_minutes", "save_total_limit", "save_optimizer_state", "do_last_save",
    "async_save", "merge_lora_before_save", "resume_from", "resume_if_possible", "step_start_point",
    "force_step_start_point", "max_skipped_steps",
    // logs
    "model_name", "trainer_prefix", "log_steps", "report_steps", "report_metrics", "log_grad_norms", "use_tensorboard",
    "html_report", "report_to", "use_wandb", "wandb_entity", "wandb_project", "wandb_name", "mlflow_tracking_uri",
    "dashboard", "push_to_hub", "hub_model_id", "hub_strategy", "hub_private_repo", "hub_always_push",
    "progress_bar_type", "track_memory", "verbose", "profile",
    // threads that read data
    "dataloader_num_workers", "dataset_num_proc"};

// Previews are told by their beginning.
bool is_free(std::string_view key) {
  return key.starts_with("generation_") || std::find(std::begin(kFree), std::end(kFree), key) != std::end(kFree);
}

bool is_model_file(const fs::path& path) {
  const std::string name = path.filename().string(), type = path.extension().string();
  return name == "config.json" || name == "adapter_config.json" || name.ends_with("processor_config.json") ||
         type == ".safetensors" || type == ".bin" || type == ".pt" || type == ".pth" || type == ".gguf";
}

bool is_tokenizer_file(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.starts_with("tokenizer") || name.starts_with("chat_template") || name == "special_tokens_map.json";
}

// Keys of a model's config that say how it is computed, not what.
bool is_free_in_config(std::string_view key) {
  return key == "attn_mechanism" || key == "gradient_checkpointing" || key == "zero_stage" ||
         key.starts_with("sharding");
}

void add_file(const fs::path& path, Sha256& hash) {
  constexpr std::uintmax_t kWhole = 1 << 20, kBlock = 1 << 12, kBlocks = 64;
  const std::uintmax_t size = fs::file_size(path);
  hash.update(concat(path.filename().string(), " ", size, "\n"));
  std::ifstream file(path, std::ios::binary);
  std::string block;
  const auto add = [&](std::uintmax_t at, std::uintmax_t count) {
    block.resize(count);
    file.seekg(static_cast<std::streamoff>(at));
    file.read(block.data(), static_cast<std::streamsize>(count));
    require<IoError>(file.good(), "[", path.string(), "] cannot be read.");
    hash.update(block);
  };
  if (size <= kWhole) return add(0, size);
  for (std::uintmax_t i = 0; i < kBlocks; ++i) add((size - kBlock) / (kBlocks - 1) * i, kBlock);
}

// Of the files of a directory that `counts`, or of a file.
std::string digest(const fs::path& path, bool (*counts)(const fs::path&)) {
  std::vector<fs::path> files;
  if (fs::is_directory(path)) {
    for (const fs::directory_entry& entry : fs::directory_iterator(path)) {
      if (entry.is_regular_file() && counts(entry.path())) files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
  } else if (fs::is_regular_file(path)) {
    files.push_back(path);
  }
  Sha256 hash;
  for (const fs::path& file : files) add_file(file, hash);
  return hash.hex();
}

Json describe_model(const BaseModule& model) {
  const std::string name = model.config().name_or_path;
  Json json = Json::object({{"name", name}, {"model_type", model.model_type()}});
  std::error_code ignored;
  json["digest"] = !name.empty() && fs::exists(name, ignored) ? model_digest(name) : "";
  return json;
}

std::string shown(const Json* value) { return value ? value->dump() : "not set"; }

void compare_model(const std::string& what, const Json& before, const Json& now, std::vector<std::string>& out) {
  const auto text = [](const Json& model, const char* key) {
    const Json* value = model.is_object() ? model.find(key) : nullptr;
    return value && value->is_string() ? value->as_string() : std::string();
  };
  if (text(before, "digest") == text(now, "digest") && text(before, "model_type") == text(now, "model_type")) return;
  if (text(before, "name") == text(now, "name")) {
    out.push_back(concat("the files of ", what, " \"", text(now, "name"), "\" changed"));
  } else {
    out.push_back(concat(what, " was \"", text(before, "name"), "\", now \"", text(now, "name"), "\""));
  }
}

}  // namespace

std::string model_digest(const fs::path& path) { return digest(path, is_model_file); }

Json describe_run(const TrainerOptions& options) {
  Json settings = Json::object({{"trainer_type", options.trainer_type},
                                {"dtype", dtype_name(options.model->dtype())},
                                {"param_dtype", dtype_name(options.model->param_dtype())}});
  const Json arguments = options.arguments.to_json(options.trainer_type);
  for (const auto& [key, value] : arguments.as_object()) {
    if (!is_free(key)) settings[key] = value;
  }
  if (const Json* how = options.run_config.find("quantization")) settings["quantization"] = *how;
  if (const Json* base = options.run_config.find("base_config"); base && base->find("values")) {
    for (const auto& [key, value] : base->at("values").as_object()) {
      if (!is_free_in_config(key)) settings["base_config.values." + key] = value;
    }
  }
  Json models = Json::object({{"model", describe_model(*options.model)}});
  if (const fs::path& tokenizer = options.tokenizer_directory; !tokenizer.empty())
    models["tokenizer"] =
        Json::object({{"name", tokenizer.string()}, {"digest", digest(tokenizer, is_tokenizer_file)}});
  for (const BaseModule* other : options.objective->other_models())
    models["reference or teacher model"] = describe_model(*other);
  if (const auto along = options.objective->trained_along()) models["value model"] = describe_model(*along);
  return Json::object(
      {{"models", models}, {"data", options.train_dataset->fingerprint()}, {"settings", std::move(settings)}});
}

std::vector<std::string> differences(const Json& before, const Json& now) {
  std::vector<std::string> out;
  const Json nothing;
  const auto compare = [&](const char* section, const auto& difference) {
    const Json *old = before.find(section), *fresh = now.find(section);
    std::vector<std::string> keys;
    for (const Json* side : {old, fresh}) {
      if (!side || !side->is_object()) continue;
      for (const auto& [key, value] : side->as_object()) {
        if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(key);
      }
    }
    for (const std::string& key : keys)
      difference(key, old && old->is_object() ? old->find(key) : nullptr, fresh ? fresh->find(key) : nullptr);
  };
  compare("models", [&](const std::string& key, const Json* old, const Json* fresh) {
    compare_model(key, old ? *old : nothing, fresh ? *fresh : nothing, out);
  });
  if (const Json *old = before.find("data"), *fresh = now.find("data"); old && fresh) {
    for (std::string& change : data::data_changes(*old, *fresh)) out.push_back(std::move(change));
  }
  compare("settings", [&](const std::string& key, const Json* old, const Json* fresh) {
    // An argument that one of two versions does not know says nothing.
    const bool is_section = key == "quantization" || key.starts_with("base_config");
    if (is_section ? !old != !fresh || (old && !(*old == *fresh)) : old && fresh && !(*old == *fresh))
      out.push_back(concat(key, " was ", shown(old), ", now ", shown(fresh)));
  });
  return out;
}

}  // namespace easydel

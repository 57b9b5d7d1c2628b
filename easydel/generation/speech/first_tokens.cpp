#include "easydel/generation/speech/first_tokens.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>

#include "easydel/core/error.h"

namespace easydel {
namespace {

bool has_any(const std::vector<int64_t>& ids, const std::vector<int64_t>& wanted) {
  return std::any_of(ids.begin(), ids.end(),
                     [&](int64_t id) { return std::find(wanted.begin(), wanted.end(), id) != wanted.end(); });
}

// The language whose token is likeliest behind the first one.
int64_t detect_language(const BaseModule& module, const at::Tensor& states, int64_t start,
                        const std::vector<int64_t>& languages) {
  std::vector<int64_t> sorted = languages;
  std::sort(sorted.begin(), sorted.end());  // of equals the first
  const at::Tensor logits = logits_behind(module, states, {start});
  const at::Tensor ids = at::tensor(sorted, at::kLong).to(logits.device());
  return sorted[static_cast<std::size_t>(logits.index_select(0, ids).argmax().item<int64_t>())];
}

}  // namespace

const Json* SpeechKeys::find(const char* key) const {
  const Json* value = config_.other.find(key);
  return value && !value->is_null() ? value : nullptr;
}

std::optional<int64_t> SpeechKeys::token(const char* key) const {
  const Json* value = find(key);
  if (!value) return std::nullopt;
  require_token(*value, key);
  return value->as_int();
}

int64_t SpeechKeys::named(const char* key, const std::string& name, const char* what) const {
  const Json* table = find(key);
  require<ConfigError>(table && table->is_object(), "[transcribe] a ", what, " needs ", key,
                       " in generation_config.json; it has none.");
  std::string known;
  for (const auto& [each, id] : table->as_object()) {
    if (each == name || each == "<|" + name + "|>") {
      require_token(id, key);
      return id.as_int();
    }
    known += (known.empty() ? "" : ", ") +
             (each.starts_with("<|") && each.ends_with("|>") ? each.substr(2, each.size() - 4) : each);
  }
  fail<ConfigError>("[transcribe] the model's ", what, "s are ", known, "; got \"", name, "\".");
}

std::vector<int64_t> SpeechKeys::values(const char* key) const {
  std::vector<int64_t> ids;
  const Json* table = find(key);
  if (!table || !table->is_object()) return ids;
  for (const auto& [each, id] : table->as_object()) {
    require_token(id, key);
    ids.push_back(id.as_int());
  }
  return ids;
}

std::optional<std::string> SpeechKeys::text(const char* key) const {
  const Json* value = find(key);
  if (!value) return std::nullopt;
  require<ConfigError>(value->is_string(), "[transcribe] ", key, " of generation_config.json must be a string; got ",
                       value->dump(), ".");
  return value->as_string();
}

std::optional<double> SpeechKeys::number(const char* key) const {
  const Json* value = find(key);
  if (!value) return std::nullopt;
  require<ConfigError>(value->is_number(), "[transcribe] ", key, " of generation_config.json must be a number; got ",
                       value->dump(), ".");
  return value->as_double();
}

std::vector<int64_t> SpeechKeys::forced() const {
  const Json* given = find("forced_decoder_ids");
  const Json outer = model_.get("forced_decoder_ids");
  if (!given && !outer.is_null()) given = &outer;
  std::vector<int64_t> ids;
  if (!given) return ids;
  require<ConfigError>(given->is_array(), "[transcribe] forced_decoder_ids must be a list of pairs; got ",
                       given->dump(), ".");
  for (const Json& pair : given->as_array()) {
    const bool fits = pair.is_array() && pair.size() == 2 && pair.at(std::size_t{0}).is_int() &&
                      pair.at(std::size_t{0}).as_int() == static_cast<int64_t>(ids.size()) + 1;
    require<ConfigError>(fits, "[transcribe] forced_decoder_ids must be pairs of 1, 2, … and a token; got ",
                         given->dump(), ".");
    const Json& id = pair.at(std::size_t{1});
    if (!id.is_null()) require_token(id, "forced_decoder_ids");
    ids.push_back(id.is_null() ? -1 : id.as_int());
  }
  return ids;
}

void SpeechKeys::require_token(const Json& id, const char* key) const {
  require<ConfigError>(id.is_int() && id.as_int() >= 0 && id.as_int() < model_.vocab_size, "[transcribe] ", key,
                       " of generation_config.json must have tokens in [0, ", model_.vocab_size, "); got ", id.dump(),
                       ".");
}

at::Tensor logits_behind(const BaseModule& module, const at::Tensor& states, const std::vector<int64_t>& ids) {
  const c10::InferenceMode guard;
  ModelInputs inputs;
  if (!module.parallel()) inputs.logits_to_keep = 1;
  inputs.encoder_outputs = states;
  inputs.decoder_input_ids = at::tensor(ids, at::kLong).to(states.device()).unsqueeze(0);
  inputs.output_attentions = inputs.output_hidden_states = inputs.output_router_logits = false;
  const at::Tensor logits = module(inputs).logits;
  return logits.select(1, logits.size(1) - 1).to(at::kFloat).flatten();
}

std::vector<int64_t> first_tokens(const BaseModule& module, const at::Tensor& states, const SpeechKeys& keys,
                                  const TranscribeOptions& options, const GenerationConfig& config, bool timestamps) {
  const std::optional<int64_t> start = config.decoder_start_token_id;
  require<ConfigError>(start.has_value(),
                       "[transcribe] decoder_start_token_id must be in generation_config.json or "
                       "config.json; it is in neither.");
  if (const Json* multilingual = keys.find("is_multilingual"); multilingual && *multilingual == Json(false)) {
    require<ConfigError>(!options.language && !options.task,
                         "[transcribe] the model is English-only, as is_multilingual of generation_config.json says; "
                         "leave language and task out.");
  }
  const std::optional<std::string> language = options.language ? options.language : keys.text("language");
  const std::optional<std::string> task = options.task ? options.task : keys.text("task");
  std::vector<int64_t> ids{*start};
  if (!language && !task) {
    const std::vector<int64_t> forced = keys.forced();
    ids.insert(ids.end(), forced.begin(), forced.end());
  }
  const auto set_language = [&](int64_t id) { ids.size() > 1 ? void(ids[1] = id) : ids.push_back(id); };
  if (language) {
    set_language(keys.named("lang_to_id", *language, "language"));
  } else if (const std::vector<int64_t> known = keys.values("lang_to_id");
             !known.empty() && (ids.size() <= 1 || ids[1] < 0)) {
    set_language(detect_language(module, states, *start, known));
  }
  if (task) {
    ids.push_back(keys.named("task_to_id", *task, "task"));
  } else if (language && keys.find("task_to_id") && !has_any(ids, keys.values("task_to_id"))) {
    ids.push_back(keys.named("task_to_id", "transcribe", "task"));
  }
  const std::optional<int64_t> no_timestamps = keys.token("no_timestamps_token_id");
  if (no_timestamps && !timestamps && ids.back() != *no_timestamps) ids.push_back(*no_timestamps);
  if (no_timestamps && timestamps && ids.back() == *no_timestamps) ids.pop_back();
  std::erase(ids, -1);
  return ids;
}

}  // namespace easydel

#include "easydel/generation/speech/transcribe.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>

#include "easydel/core/error.h"
#include "easydel/generation/generate.h"
#include "easydel/generation/seq2seq_step.h"
#include "easydel/generation/speech/timestamp_processor.h"

namespace easydel {
namespace {

constexpr int64_t kFramesPerTime = 2;  // a time token is 0.02 s, a frame 0.01 s
constexpr double kSecondsPerFrame = 0.01, kSecondsPerTime = 0.02;

// The keys of generation_config.json that only Whisper has.
class SpeechKeys {
 public:
  SpeechKeys(const GenerationConfig& config, const BaseConfig& model) : config_(config), model_(model) {}

  const Json* find(const char* key) const {
    const Json* value = config_.other.find(key);
    return value && !value->is_null() ? value : nullptr;
  }
  std::optional<int64_t> token(const char* key) const {
    const Json* value = find(key);
    if (!value) return std::nullopt;
    require_token(*value, key);
    return value->as_int();
  }
  // The token of a name in lang_to_id or task_to_id.
  int64_t named(const char* key, const std::string& name, const char* what) const {
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
  std::vector<int64_t> values(const char* key) const {
    std::vector<int64_t> ids;
    const Json* table = find(key);
    if (!table || !table->is_object()) return ids;
    for (const auto& [each, id] : table->as_object()) {
      require_token(id, key);
      ids.push_back(id.as_int());
    }
    return ids;
  }
  std::optional<std::string> text(const char* key) const {
    const Json* value = find(key);
    if (!value) return std::nullopt;
    require<ConfigError>(value->is_string(), "[transcribe] ", key, " of generation_config.json must be a string; got ",
                         value->dump(), ".");
    return value->as_string();
  }
  // The tokens behind the first that older files force; -1: left open.
  std::vector<int64_t> forced() const {
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

 private:
  void require_token(const Json& id, const char* key) const {
    require<ConfigError>(id.is_int() && id.as_int() >= 0 && id.as_int() < model_.vocab_size, "[transcribe] ", key,
                         " of generation_config.json must have tokens in [0, ", model_.vocab_size, "); got ", id.dump(),
                         ".");
  }

  const GenerationConfig& config_;
  const BaseConfig& model_;
};

bool has_any(const std::vector<int64_t>& ids, const std::vector<int64_t>& wanted) {
  return std::any_of(ids.begin(), ids.end(),
                     [&](int64_t id) { return std::find(wanted.begin(), wanted.end(), id) != wanted.end(); });
}

// The language whose token is likeliest behind the first one.
int64_t detect_language(const BaseModule& module, const at::Tensor& window, int64_t start,
                        const std::vector<int64_t>& languages) {
  const c10::InferenceMode guard;
  ModelInputs inputs{.logits_to_keep = 1};
  inputs.input_features = window;
  inputs.decoder_input_ids = at::full({1, 1}, start, window.options().dtype(at::kLong));
  inputs.output_attentions = inputs.output_hidden_states = inputs.output_router_logits = false;
  if (module.parallel()) inputs.logits_to_keep.reset();
  const at::Tensor logits = module(inputs).logits.to(at::kFloat).flatten();
  std::vector<int64_t> sorted = languages;
  std::sort(sorted.begin(), sorted.end());  // of equals the first
  const at::Tensor ids = at::tensor(sorted, at::kLong).to(logits.device());
  return sorted[static_cast<std::size_t>(logits.index_select(0, ids).argmax().item<int64_t>())];
}

std::vector<int64_t> first_tokens(const BaseModule& module, const at::Tensor& window, const SpeechKeys& keys,
                                  const TranscribeOptions& options, const GenerationConfig& config, bool timestamps) {
  const std::optional<int64_t> start = config.decoder_start_token_id;
  require<ConfigError>(start.has_value(),
                       "[transcribe] decoder_start_token_id must be in generation_config.json or "
                       "config.json; it is in neither.");
  if (const Json* multilingual = keys.find("is_multilingual"); multilingual && *multilingual == Json(false)) {
    require<ConfigError>(!options.language && !options.task,
                         "[transcribe] the model knows English alone, as is_multilingual of generation_config.json "
                         "says; leave language and task out.");
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
    set_language(detect_language(module, window, *start, known));
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

// Cuts the tokens of a window where two times meet, and says how many frames were heard to an end.
int64_t take_segments(const std::vector<int64_t>& tokens, int64_t first_time, int64_t seek, int64_t frames,
                      std::vector<SpokenSegment>& segments) {
  const auto is_time = [&](std::size_t i) { return tokens[i] >= first_time; };
  const auto seconds = [&](int64_t token) { return static_cast<double>(token - first_time) * kSecondsPerTime; };
  const double offset = static_cast<double>(seek) * kSecondsPerFrame;
  const std::size_t count = tokens.size();
  std::vector<std::size_t> cuts;
  for (std::size_t i = 0; i + 1 < count; ++i) {
    if (is_time(i) && is_time(i + 1)) cuts.push_back(i + 1);
  }
  if (cuts.empty()) {
    double length = static_cast<double>(frames / kFramesPerTime) * kSecondsPerTime;
    for (std::size_t i = count; i-- > 0;) {
      if (!is_time(i)) continue;
      if (tokens[i] != first_time) length = seconds(tokens[i]);
      break;
    }
    segments.push_back({offset, offset + length, tokens});
    return frames;
  }
  const bool ends_with_time = count >= 2 && !is_time(count - 2) && is_time(count - 1);
  if (ends_with_time) {
    cuts.push_back(count);
  } else {
    ++cuts.back();  // what follows is unfinished, and heard again
  }
  std::size_t begin = 0;
  for (std::size_t i = 0; i < cuts.size(); ++i) {
    const std::size_t last = cuts[i] - (i + 1 < cuts.size() || ends_with_time ? 1 : 2);
    segments.push_back(
        {offset + seconds(tokens[begin]),
         offset + seconds(tokens[last]),
         {tokens.begin() + static_cast<std::ptrdiff_t>(begin), tokens.begin() + static_cast<std::ptrdiff_t>(cuts[i])}});
    begin = cuts[i];
  }
  if (ends_with_time) return frames;
  const int64_t heard = (tokens[begin - 2] - first_time) * kFramesPerTime;
  return heard > 0 ? heard : frames;
}

}  // namespace

Transcription transcribe(const BaseModule& module, const at::Tensor& input_features, const TranscribeOptions& options) {
  require<NotSupportedError>(module.main_input_name() == "input_features" && module.can_generate(), "[transcribe] ",
                             module.type_name(),
                             " writes no text from speech. Load a model such as whisper for "
                             "speech-sequence-to-sequence.");
  const at::Tensor features = check_sound(module, input_features);
  require<ShapeError>(features.size(0) == 1, "[transcribe] takes one recording at a time; got ", features.size(0), ".");
  const BaseConfig& model = module.config();
  GenerationConfig config = options.generation_config.over(generation_config(module));
  if (!config.decoder_start_token_id && model.get("decoder_start_token_id").is_int())
    config.decoder_start_token_id = model.get("decoder_start_token_id").as_int();
  require<NotSupportedError>(!config.samples(), "[transcribe] chooses the likeliest tokens; got do_sample.");
  require<NotSupportedError>(config.num_return_sequences.value_or(1) == 1,
                             "[transcribe] gives one text; got num_return_sequences ",
                             config.num_return_sequences.value_or(1), ".");
  const SpeechKeys keys(config, model);
  const int64_t window = 2 * model.get("max_source_positions").as_int(), total = features.size(2);
  const Json* by_file = keys.find("return_timestamps");
  const std::optional<bool> wanted =
      options.return_timestamps || !by_file ? options.return_timestamps : std::optional(*by_file == Json(true));
  require<ConfigError>(total <= window || wanted.value_or(true) || !options.return_timestamps, "[transcribe] ", total,
                       " frames are more than a window of ", window,
                       ", and times say where the next one begins; leave return_timestamps out or set it to true.");
  const bool timestamps = total > window || wanted.value_or(false);
  const std::optional<int64_t> no_timestamps = keys.token("no_timestamps_token_id");
  require<ConfigError>(!timestamps || no_timestamps, "[transcribe] times",
                       total > window ? concat(", which ", total, " frames in windows of ", window, " need,") : "",
                       " need no_timestamps_token_id in generation_config.json; it has none.");
  const int64_t first_time = no_timestamps ? *no_timestamps + 1 : model.vocab_size + 1;
  const auto cut = [&](int64_t seek, int64_t frames) {
    return at::constant_pad_nd(features.narrow(2, seek, frames), {0, window - frames});
  };
  Transcription out;
  out.decoder_input_ids = first_tokens(module, cut(0, std::min(total, window)), keys, options, config, timestamps);
  const auto begin = static_cast<int64_t>(out.decoder_input_ids.size());
  GenerateOptions each{.generation_config = config};
  if (timestamps) {
    require<ConfigError>(!config.eos_token_id.empty() || config.bos_token_id,
                         "[transcribe] times need an eos_token_id; there is none.");
    const int64_t end = config.eos_token_id.empty() ? *config.bos_token_id : *config.eos_token_id.begin();
    each.logits_processor.add<WhisperTimeStampLogitsProcessor>(*no_timestamps, end, begin,
                                                               keys.token("max_initial_timestamp_index"));
  }
  const at::Tensor ids = at::tensor(out.decoder_input_ids, at::kLong).unsqueeze(0);
  for (int64_t seek = 0; seek < total;) {
    const int64_t frames = std::min(total - seek, window);
    std::optional<int64_t>& longest = each.generation_config.max_length;
    if (longest &&
        !config.max_new_tokens) {  // what the decoder begins with is added for each window, as in transformers
      const int64_t positions = model.max_position_embeddings;
      longest = std::min(*longest + std::min(positions / 2 - 1, begin), positions);
    }
    const GenerateOutput said = generate_behind(module, cut(seek, frames), ids, each);
    const at::Tensor tail = said.sequences[0].narrow(0, begin, said.lengths[0]).to(at::kCPU).contiguous();
    std::vector<int64_t> tokens(tail.const_data_ptr<int64_t>(), tail.const_data_ptr<int64_t>() + tail.numel());
    if (!tokens.empty() && config.eos_token_id.contains(tokens.back())) tokens.pop_back();
    seek += take_segments(tokens, first_time, seek, frames, out.segments);
  }
  for (const SpokenSegment& segment : out.segments)
    out.tokens.insert(out.tokens.end(), segment.tokens.begin(), segment.tokens.end());
  return out;
}

std::vector<int32_t> without_times(const std::vector<int64_t>& tokens, const GenerationConfig& config) {
  const Json* const last = config.other.find("no_timestamps_token_id");
  std::vector<int32_t> ids;
  for (const int64_t token : tokens) {
    if (!last || !last->is_int() || token <= last->as_int()) ids.push_back(static_cast<int32_t>(token));
  }
  return ids;
}

}  // namespace easydel

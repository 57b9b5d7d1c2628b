#include "easydel/generation/speech/transcribe.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>

#include "easydel/core/error.h"
#include "easydel/generation/generate.h"
#include "easydel/generation/seq2seq_step.h"
#include "easydel/generation/speech/first_tokens.h"
#include "easydel/generation/speech/window_hearing.h"
#include "easydel/infra/encoder/seq2seq_inputs.h"
#include "easydel/tokenizers/tokenizer.h"

namespace easydel {
namespace {

constexpr int64_t kFramesPerTime = 2;  // a time token is 0.02 s, a frame 0.01 s
constexpr double kSecondsPerFrame = 0.01, kSecondsPerTime = 0.02;

// Cuts the tokens of a window where two times meet, and says how many frames were heard to an end.
int64_t take_segments(const HeardWindow& heard, int64_t first_time, int64_t seek, int64_t frames,
                      std::vector<SpokenSegment>& segments) {
  const std::vector<int64_t>& tokens = heard.tokens;
  const auto is_time = [&](std::size_t i) { return tokens[i] >= first_time; };
  const auto seconds = [&](int64_t token) { return static_cast<double>(token - first_time) * kSecondsPerTime; };
  const double offset = static_cast<double>(seek) * kSecondsPerFrame;
  const std::size_t count = tokens.size();
  const auto add = [&](double start, double end, std::size_t from, std::size_t to) {
    SpokenSegment segment{.start = start, .end = end, .tokens = {}, .temperature = heard.temperature};
    segment.tokens.assign(tokens.begin() + static_cast<std::ptrdiff_t>(from),
                          tokens.begin() + static_cast<std::ptrdiff_t>(to));
    for (std::size_t i = from; i < to && !heard.token_times.empty(); ++i)
      segment.token_times.push_back(offset + heard.token_times[i]);
    segments.push_back(std::move(segment));
  };
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
    add(offset, offset + length, 0, count);
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
    add(offset + seconds(tokens[begin]), offset + seconds(tokens[last]), begin, cuts[i]);
    begin = cuts[i];
  }
  if (ends_with_time) return frames;
  const int64_t done = (tokens[begin - 2] - first_time) * kFramesPerTime;
  return done > 0 ? done : frames;
}

at::Tensor encode(const BaseModule& module, const at::Tensor& window) {
  const c10::InferenceMode guard;
  ModelInputs inputs;
  inputs.input_features = window;
  inputs.output_attentions = inputs.output_hidden_states = false;
  return run_encoder(module, inputs);
}

// As in transformers, which has no room for a longer prompt.
void check_room(std::size_t begin, const GenerationConfig& config, const BaseConfig& model) {
  const int64_t wanted = config.max_new_tokens.value_or(1), positions = model.max_position_embeddings;
  require<ConfigError>(static_cast<int64_t>(begin) + wanted <= positions, "[transcribe] the decoder begins with ",
                       begin, " tokens, those of the prompt among them, and ", wanted, " new ones exceed its ",
                       positions, " positions. Shorten the prompt, or set a smaller max_new_tokens.");
}

}  // namespace

Transcription transcribe(const BaseModule& module, const at::Tensor& input_features, const TranscribeOptions& options) {
  require<NotSupportedError>(module.main_input_name() == "input_features" && module.can_generate(), "[transcribe] ",
                             module.type_name(),
                             " does not transcribe speech. Load a model such as whisper for "
                             "speech-sequence-to-sequence.");
  const at::Tensor features = check_sound(module, input_features);
  require<ShapeError>(features.size(0) == 1, "[transcribe] takes one recording at a time; got ", features.size(0), ".");
  const BaseConfig& model = module.config();
  GenerationConfig config = options.generation_config.over(generation_config(module));
  if (!config.decoder_start_token_id && model.get("decoder_start_token_id").is_int())
    config.decoder_start_token_id = model.get("decoder_start_token_id").as_int();
  require<NotSupportedError>(
      !config.samples(),
      "[transcribe] samples at its own temperatures; got do_sample. Set temperature in the options instead.");
  require<NotSupportedError>(config.num_return_sequences.value_or(1) == 1,
                             "[transcribe] returns one text; got num_return_sequences ",
                             config.num_return_sequences.value_or(1), ".");
  const SpeechKeys keys(config, model);
  require<ConfigError>(options.num_frames.value_or(1) >= 1, "[transcribe] num_frames must be at least 1; got ",
                       options.num_frames.value_or(1), ".");
  const int64_t window = 2 * model.get("max_source_positions").as_int(), total = features.size(2);
  const Json* by_file = keys.find("return_timestamps");
  const std::optional<bool> wanted =
      options.return_timestamps || !by_file ? options.return_timestamps : std::optional(*by_file == Json(true));
  require<ConfigError>(
      total <= window || wanted.value_or(true) || !options.return_timestamps, "[transcribe] ", total,
      " frames are more than a window of ", window,
      ", and timestamps determine where the next one begins; leave return_timestamps out or set it to true.");
  const bool timestamps = total > window || wanted.value_or(false);
  const std::optional<int64_t> no_timestamps = keys.token("no_timestamps_token_id");
  require<ConfigError>(!timestamps || no_timestamps, "[transcribe] timestamps",
                       total > window ? concat(", which ", total, " frames in windows of ", window, " need,") : "",
                       " need no_timestamps_token_id in generation_config.json; it has none.");
  const int64_t first_time = no_timestamps ? *no_timestamps + 1 : model.vocab_size + 1;
  const auto cut = [&](int64_t seek, int64_t frames) {
    return at::constant_pad_nd(features.narrow(2, seek, frames), {0, window - frames});
  };
  WindowHearing hearing(module, config, options, keys, timestamps);
  Transcription out;
  for (const int64_t id : options.prompt_ids)
    require<ConfigError>(id >= 0 && id < model.vocab_size, "[transcribe] prompt_ids must lie in [0, ", model.vocab_size,
                         "); got ", id, ".");
  bool is_prompted = hearing.conditions();
  for (int64_t seek = 0; seek < total;) {
    const int64_t frames = std::min(total - seek, window);
    const at::Tensor sound = cut(seek, frames), states = encode(module, sound);
    if (seek == 0) out.decoder_input_ids = first_tokens(module, states, keys, options, config, timestamps);
    const bool has_text = !out.segments.empty() || !options.prompt_ids.empty();
    std::vector<int64_t> ids =
        is_prompted && has_text ? hearing.prompt_of(options.prompt_ids, out.segments, first_time) : options.prompt_ids;
    const std::size_t prompt = ids.size();
    ids.insert(ids.end(), out.decoder_input_ids.begin(), out.decoder_input_ids.end());
    if (!options.prompt_ids.empty()) check_room(ids.size(), config, model);
    const HeardWindow heard = hearing.hear(sound, states, ids, prompt, options.num_frames.value_or(total) - seek);
    is_prompted = hearing.prompts_next(heard);
    seek += heard.is_silence ? frames : take_segments(heard, first_time, seek, frames, out.segments);
  }
  for (const SpokenSegment& segment : out.segments)
    out.tokens.insert(out.tokens.end(), segment.tokens.begin(), segment.tokens.end());
  return out;
}

std::vector<int64_t> speech_prompt(const Tokenizer& tokenizer, const std::string& text) {
  const std::optional<int32_t> begin = tokenizer.token_to_id("<|startofprev|>");
  require<ConfigError>(begin.has_value(),
                       "[transcribe] a prompt needs the token <|startofprev|>, which the tokenizer does not have.");
  const auto is_space = [](char c) { return c == ' ' || (c >= '\t' && c <= '\r'); };
  std::size_t first = 0, end = text.size();
  while (first < end && is_space(text[first])) ++first;
  while (end > first && is_space(text[end - 1])) --end;
  std::vector<int64_t> ids{*begin};
  for (const int32_t id : tokenizer.encode_ids(" " + text.substr(first, end - first), /*add_special_tokens=*/false)) {
    require<ConfigError>(!tokenizer.is_special(id), "[transcribe] a prompt must be plain text; got the special token ",
                         tokenizer.id_to_token(id).value_or(""), ".");
    ids.push_back(id);
  }
  return ids;
}

std::vector<int32_t> without_times(const std::vector<int64_t>& tokens, const GenerationConfig& config) {
  const Json* const last = config.other.find("no_timestamps_token_id");
  std::vector<int32_t> ids;
  for (const int64_t token : tokens) {
    if (!last || !last->is_int() || token <= last->as_int()) ids.push_back(static_cast<int32_t>(token));
  }
  return ids;
}

std::string spoken_language(const std::vector<int64_t>& tokens, const GenerationConfig& config) {
  const Json* languages = config.other.find("lang_to_id");
  if (!languages || !languages->is_object()) return "";
  for (const auto& [name, id] : languages->as_object()) {
    for (const int64_t token : tokens) {
      if (id == Json(token)) return name.size() > 4 && name.starts_with("<|") ? name.substr(2, name.size() - 4) : name;
    }
  }
  return "";
}

}  // namespace easydel

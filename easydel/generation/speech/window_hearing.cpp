#include "easydel/generation/speech/window_hearing.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cmath>

#include "easydel/core/error.h"
#include "easydel/generation/seq2seq_step.h"
#include "easydel/generation/speech/timestamp_processor.h"
#include "easydel/generation/speech/token_times.h"
#include "easydel/io/gzip_size.h"

namespace easydel {
namespace {

constexpr double kSure = 0.5;  // text that was heard at a higher temperature is no prompt
constexpr int64_t kFramesPerState = 2;

// How often the bytes of tokens repeat themselves, as zlib sees it.
double compression_ratio(const std::vector<int64_t>& tokens, int64_t vocab_size) {
  const auto width = static_cast<int64_t>(std::log2(static_cast<double>(vocab_size)) / 8) + 1;
  std::string bytes;
  for (const int64_t token : tokens) {
    for (int64_t i = 0; i < width; ++i) bytes += static_cast<char>((token >> (8 * i)) & 0xff);
  }
  return static_cast<double>(bytes.size()) / static_cast<double>(zlib_size(bytes));
}

// The mean log-probability of tokens, the end token among them, under the scores that they were chosen by.
double mean_log_probability(const GenerateOutput& said, const std::vector<int64_t>& tokens, double temperature) {
  std::vector<at::Tensor> rows;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto step = static_cast<int64_t>(i);
    rows.push_back(said.scores[i][said.beam_indices.defined() ? said.beam_indices[0][step].item<int64_t>() : 0]);
  }
  const at::Tensor scores = at::stack(rows).to(at::kFloat) * (temperature > 0 ? temperature : 1.0);
  const at::Tensor ids = at::tensor(tokens, at::kLong).to(scores.device()).unsqueeze(-1);
  return scores.log_softmax(-1).gather(1, ids).mean().item<double>();
}

std::vector<std::pair<int64_t, int64_t>> read_alignment_heads(const SpeechKeys& keys, const BaseConfig& model) {
  const Json* table = keys.find("alignment_heads");
  require<ConfigError>(table && table->is_array() && table->size() > 0,
                       "[transcribe] token timestamps need alignment_heads in generation_config.json, pairs of a layer "
                       "and a head; it has none.");
  const int64_t layers = model.get("decoder_layers").as_int(), heads = model.get("decoder_attention_heads").as_int();
  std::vector<std::pair<int64_t, int64_t>> pairs;
  for (const Json& pair : table->as_array()) {
    const bool is_pair =
        pair.is_array() && pair.size() == 2 && pair.at(std::size_t{0}).is_int() && pair.at(std::size_t{1}).is_int();
    const int64_t layer = is_pair ? pair.at(std::size_t{0}).as_int() : -1;
    const int64_t head = is_pair ? pair.at(std::size_t{1}).as_int() : -1;
    require<ConfigError>(layer >= 0 && layer < layers && head >= 0 && head < heads,
                         "[transcribe] alignment_heads of generation_config.json must be pairs of a layer in [0, ",
                         layers, ") and a head in [0, ", heads, "); got ", pair.dump(), ".");
    pairs.emplace_back(layer, head);
  }
  return pairs;
}

}  // namespace

WindowHearing::WindowHearing(const BaseModule& module, const GenerationConfig& config, const TranscribeOptions& options,
                             const SpeechKeys& keys, bool timestamps)
    : module_(module),
      config_(config),
      temperatures_(options.temperature.empty() ? std::vector<double>{0} : options.temperature),
      timestamps_(timestamps),
      no_timestamps_(keys.token("no_timestamps_token_id")),
      previous_by_key_(keys.token("prev_sot_token_id")),
      previous_(previous_by_key_),
      max_initial_(keys.token("max_initial_timestamp_index")),
      prng_key_(options.prng_key) {
  for (const double temperature : temperatures_) {
    require<ConfigError>(std::isfinite(temperature) && temperature >= 0,
                         "[transcribe] temperature must be finite and at least 0; got ", temperature, ".");
  }
  const auto either = [&](const std::optional<double>& given, const char* key) {
    return given ? given : keys.number(key);
  };
  compression_ratio_threshold_ = either(options.compression_ratio_threshold, "compression_ratio_threshold");
  logprob_threshold_ = either(options.logprob_threshold, "logprob_threshold");
  no_speech_threshold_ = either(options.no_speech_threshold, "no_speech_threshold");
  require<ConfigError>(!no_speech_threshold_ || (logprob_threshold_ && no_timestamps_),
                       "[transcribe] no_speech_threshold needs logprob_threshold, below which a text may be silence, "
                       "and no_timestamps_token_id in generation_config.json.");
  const Json* by_file = keys.find("condition_on_prev_tokens");
  conditions_ = options.condition_on_prev_tokens.value_or(by_file && *by_file == Json(true));
  if (!previous_ && config_.suppress_tokens && config_.suppress_tokens->size() >= 2)
    previous_ = (*config_.suppress_tokens)[config_.suppress_tokens->size() - 2];
  if (options.return_token_timestamps) {
    alignment_heads_ = read_alignment_heads(keys, module.config());
    filter_width_ = module.config().get("median_filter_width").as_int();
    require<ConfigError>(filter_width_ > 0 && filter_width_ % 2 == 1,
                         "[transcribe] median_filter_width must be an odd number above 0; got ", filter_width_, ".");
  }
}

bool WindowHearing::prompts_next(const HeardWindow& heard) const { return conditions_ && heard.temperature < kSure; }

std::vector<int64_t> WindowHearing::prompt_of(const std::vector<int64_t>& prompt_ids,
                                              const std::vector<SpokenSegment>& segments, int64_t first_time) const {
  std::vector<int64_t> text = prompt_ids;
  if (!text.empty() && text.front() == previous_by_key_) text.erase(text.begin());
  for (const SpokenSegment& segment : segments) {
    const std::vector<int64_t>& tokens = segment.tokens;
    const bool ends_twice = tokens.size() > 2 && tokens[tokens.size() - 2] >= first_time;
    text.insert(text.end(), tokens.begin(), tokens.end() - (ends_twice ? 1 : 0));
  }
  const auto longest = static_cast<std::size_t>(module_.config().max_position_embeddings / 2 - 1);
  if (text.size() > longest) text.erase(text.begin(), text.end() - static_cast<std::ptrdiff_t>(longest));
  if (previous_) text.insert(text.begin(), *previous_);
  return text;
}

GenerateOptions WindowHearing::options_at(double temperature, int64_t begin, uint64_t number) const {
  GenerateOptions each{.generation_config = config_, .prng_key = prng_key_.fold(windows_).fold(number)};
  if (temperature > 0) {
    each.generation_config.do_sample = true;
    each.generation_config.temperature = temperature;
    each.generation_config.num_beams = 1;
  }
  if (logprob_threshold_) each.generation_config.output_scores = true;
  if (!timestamps_) return each;
  require<ConfigError>(!config_.eos_token_id.empty() || config_.bos_token_id,
                       "[transcribe] timestamps need an eos_token_id; there is none.");
  const int64_t end = config_.eos_token_id.empty() ? *config_.bos_token_id : *config_.eos_token_id.begin();
  each.logits_processor.add<WhisperTimeStampLogitsProcessor>(*no_timestamps_, end, begin, max_initial_);
  return each;
}

// How likely the model holds it that nobody speaks: the token before no_timestamps_token_id, behind the first one.
double WindowHearing::silence_of(const at::Tensor& states, const std::vector<int64_t>& ids, std::size_t prompt) const {
  const std::vector<int64_t> first(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(prompt) + 1);
  return logits_behind(module_, states, first).softmax(-1)[*no_timestamps_ - 1].item<double>();
}

WindowHearing::Judgement WindowHearing::judge(const GenerateOutput& said, const std::vector<int64_t>& tokens,
                                              double temperature, double silence) const {
  Judgement result;
  if (compression_ratio_threshold_)
    result.is_wrong = compression_ratio(tokens, module_.config().vocab_size) > *compression_ratio_threshold_;
  if (!logprob_threshold_) return result;
  const bool is_unlikely = mean_log_probability(said, tokens, temperature) < *logprob_threshold_;
  result.is_silence = is_unlikely && no_speech_threshold_ && silence > *no_speech_threshold_;
  result.is_wrong = (result.is_wrong || is_unlikely) && !result.is_silence;
  return result;
}

std::vector<double> WindowHearing::times_of(const at::Tensor& states, const std::vector<int64_t>& ids,
                                            const std::vector<int64_t>& tokens, int64_t frames) const {
  const std::size_t read = tokens.size() - 1;  // the decoder does not read the last one
  if (read == 0 || frames < kFramesPerState) return std::vector<double>(tokens.size(), 0.0);
  const c10::InferenceMode guard;
  std::vector<int64_t> all = ids;
  all.insert(all.end(), tokens.begin(), tokens.end() - 1);
  ModelInputs inputs;
  if (!module_.parallel()) inputs.logits_to_keep = 1;
  inputs.encoder_outputs = states;
  inputs.decoder_input_ids = at::tensor(all, at::kLong).to(states.device()).unsqueeze(0);
  inputs.output_attentions = true;
  inputs.output_hidden_states = inputs.output_router_logits = false;
  std::vector<at::Tensor> weights;
  for (const at::Tensor& weights_BNTS : module_(inputs).cross_attentions) {
    weights.push_back(weights_BNTS[0].narrow(1, static_cast<int64_t>(ids.size()), static_cast<int64_t>(read)));
  }
  std::vector<double> times = token_times(weights, alignment_heads_, frames / kFramesPerState, filter_width_);
  times.push_back(times.back());
  return times;
}

HeardWindow WindowHearing::hear(const at::Tensor& features, const at::Tensor& states, const std::vector<int64_t>& ids,
                                std::size_t prompt, int64_t frames) {
  const auto begin = static_cast<int64_t>(ids.size());
  if (std::optional<int64_t>& longest = config_.max_length; longest && !config_.max_new_tokens) {
    // What the decoder begins with is added for each window, as in transformers.
    const int64_t positions = module_.config().max_position_embeddings;
    longest = std::min(*longest + std::min(positions / 2 - 1, begin), positions);
  }
  const at::Tensor beginning = at::tensor(ids, at::kLong).unsqueeze(0);
  const double silence = no_speech_threshold_ ? silence_of(states, ids, prompt) : 0;
  HeardWindow heard;
  for (std::size_t i = 0; i < temperatures_.size(); ++i) {
    heard.temperature = temperatures_[i];
    const GenerateOutput said =
        generate_behind(module_, features, beginning, options_at(heard.temperature, begin, i), states);
    const at::Tensor tail = said.sequences[0].narrow(0, begin, said.lengths[0]).to(at::kCPU).contiguous();
    heard.tokens.assign(tail.const_data_ptr<int64_t>(), tail.const_data_ptr<int64_t>() + tail.numel());
    const Judgement judgement = judge(said, heard.tokens, heard.temperature, silence);
    heard.is_silence = judgement.is_silence;
    if (!judgement.is_wrong) break;
  }
  ++windows_;
  if (!alignment_heads_.empty() && !heard.is_silence) heard.token_times = times_of(states, ids, heard.tokens, frames);
  if (!heard.tokens.empty() && config_.eos_token_id.contains(heard.tokens.back())) heard.tokens.pop_back();
  return heard;
}

}  // namespace easydel

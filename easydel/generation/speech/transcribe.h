// Speech to text as Whisper does it: in windows, behind tokens that say the language, the task and whether times are
// wanted.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "easydel/core/random.h"
#include "easydel/generation/generation_config.h"
#include "easydel/infra/base_module.h"

namespace easydel {

class Tokenizer;

// What is not set comes from the model's own generation_config.json.
struct TranscribeOptions {
  GenerationConfig generation_config = {};     // do_sample is refused: temperatures say when tokens are drawn
  std::optional<std::string> language = {};    // "en" or "<|en|>"; absent: generation_config.json's, else detected
  std::optional<std::string> task = {};        // transcribe, or translate: into English
  std::optional<bool> return_timestamps = {};  // absent: as generation_config.json says, and in more than one window
  // When each token was said, by the cross attentions of alignment_heads in generation_config.json.
  bool return_token_timestamps = false;
  std::optional<int64_t> num_frames = {};  // how many frames are sound and no padding; absent: all. For times of tokens
  // Tried one after the other while a threshold says that a window's text is wrong; above 0 tokens are drawn, and there
  // are no beams. Empty: 0 alone.
  std::vector<double> temperature = {};
  std::optional<double> compression_ratio_threshold = {};  // wrong above it: a text that repeats itself
  std::optional<double> logprob_threshold = {};            // wrong below it: the mean log-probability of tokens
  std::optional<double> no_speech_threshold = {};          // silence above it, where logprob_threshold says wrong
  std::optional<bool> condition_on_prev_tokens = {};       // the text so far is a prompt for the next window
  // Text before the sound, which tells names and a style: speech_prompt makes it of a text. Each window begins with it,
  // unless it begins with the text so far.
  std::vector<int64_t> prompt_ids = {};
  RandomKey prng_key = RandomKey(0);
};

struct SpokenSegment {
  double start = 0, end = 0;  // seconds
  std::vector<int64_t> tokens;
  std::vector<double> token_times = {};  // when each token ends, in seconds; with return_token_timestamps
  double temperature = 0;                // at which it was heard
};

struct Transcription {
  std::vector<int64_t> decoder_input_ids;  // what the decoder began with, without the text so far
  std::vector<int64_t> tokens;             // of all segments, without the end token
  std::vector<SpokenSegment> segments;
};

// Features [F, frames] or [1, F, frames] of one recording. Where they are longer than a window (30 s), the decoder's
// timestamps say where the next window begins, as in transformers' sequential long form. The encoder runs once for each
// window. ConfigError names the key of generation_config.json that is missing, and the languages and tasks that are
// known.
Transcription transcribe(const BaseModule& module, const at::Tensor& input_features,
                         const TranscribeOptions& options = {});

// prompt_ids of a text, as get_prompt_ids of transformers makes them: behind <|startofprev|>. ConfigError where the
// tokenizer has no such token, and on special tokens in the text.
std::vector<int64_t> speech_prompt(const Tokenizer& tokenizer, const std::string& text);

// The tokens of the text alone: without times, by no_timestamps_token_id of the config.
std::vector<int32_t> without_times(const std::vector<int64_t>& tokens, const GenerationConfig& config);

// The language that one of these tokens says ("en"), by lang_to_id of the config; empty where none does.
std::string spoken_language(const std::vector<int64_t>& tokens, const GenerationConfig& config);

}  // namespace easydel

// Speech to text as Whisper does it: in windows, behind tokens that say the language, the task and whether times are
// wanted.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "easydel/generation/generation_config.h"
#include "easydel/infra/base_module.h"

namespace easydel {

struct TranscribeOptions {
  GenerationConfig generation_config = {};     // what is not set comes from the model's own; sampling is refused
  std::optional<std::string> language = {};    // "en" or "<|en|>"; absent: generation_config.json's, else detected
  std::optional<std::string> task = {};        // transcribe, or translate: into English
  std::optional<bool> return_timestamps = {};  // absent: as generation_config.json says, and in more than one window
};

struct SpokenSegment {
  double start = 0, end = 0;  // seconds
  std::vector<int64_t> tokens;
};

struct Transcription {
  std::vector<int64_t> decoder_input_ids;  // what the decoder began with
  std::vector<int64_t> tokens;             // of all segments, without the end token
  std::vector<SpokenSegment> segments;
};

// Features [F, frames] or [1, F, frames] of one recording. Where they are longer than a window (30 s), the decoder's
// timestamps say where the next window begins, as in transformers' sequential long form: greedy, or with beams, without
// the text so far as a prompt and without a second try at another temperature. ConfigError names the key of
// generation_config.json that is missing, and the languages and tasks that are known.
Transcription transcribe(const BaseModule& module, const at::Tensor& input_features,
                         const TranscribeOptions& options = {});

// The tokens of the text alone: without times, by no_timestamps_token_id of the config.
std::vector<int32_t> without_times(const std::vector<int64_t>& tokens, const GenerationConfig& config);

}  // namespace easydel

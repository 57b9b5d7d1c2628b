// The engine of a speech model: recordings in, text out, one after the other on a thread of its own.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "easydel/serve/engine/engine.h"

namespace easydel {
class WhisperFeatureExtractor;
}

namespace easydel::serve {

struct SpeechRequest {
  std::string audio;                          // the bytes of a WAV, FLAC, Ogg or MP3 file
  std::string name;                           // of the file, for errors
  std::optional<std::string> language = {};   // absent: detected
  std::string prompt = {};                    // text before the recording; empty: none
  bool translate = false;                     // into English
  bool timestamps = false;                    // ask for times where the recording is no longer than a window
  bool word_timestamps = false;               // of single words, too
  double temperature = 0;                     // above 0 tokens are drawn
  std::function<bool()> is_wanted = nullptr;  // asked when its turn comes; false: it is dropped
};

struct SpeechSegment {
  double start = 0, end = 0;  // seconds
  std::string text;
  std::vector<int64_t> tokens;
};

struct SpeechWord {
  double start = 0, end = 0;  // seconds
  std::string text;
};

struct SpeechOutput {
  std::string text;
  std::string language;  // "en"; empty where the model names none
  double duration = 0;   // of the recording, in seconds
  std::vector<SpeechSegment> segments;
  std::vector<SpeechWord> words;  // with word_timestamps
  double temperature = 0;         // at which it was heard
  std::exception_ptr error;       // why there is none of this
};

class SpeechEngine : public Engine {
 public:
  // Thread-safe. FormatError and NotSupportedError for audio that cannot be read, QueueFullError. The callback is
  // called once, on the engine's thread.
  virtual void transcribe(SpeechRequest request, std::function<void(SpeechOutput)> callback) = 0;
};

bool is_speech_model(const BaseModule& model);

// ConfigError for options that only an engine of text has: max_waiting is the one that acts here.
std::shared_ptr<SpeechEngine> make_speech_engine(std::shared_ptr<BaseModule> model,
                                                 std::shared_ptr<const Tokenizer> tokenizer,
                                                 std::shared_ptr<const WhisperFeatureExtractor> extractor,
                                                 const EngineOptions& options = {});

}  // namespace easydel::serve

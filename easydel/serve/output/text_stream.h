// The text of an answer as its tokens arrive, up to a stop string.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "easydel/tokenizers/decode_stream.h"

namespace easydel::serve {

// Holds back what may be the beginning of a stop string.
class StopMatcher {
 public:
  explicit StopMatcher(std::vector<std::string> strings, bool includes_stop);

  // The text that can be shown; `matched` is set from the token that completes a stop string on.
  std::string add(const std::string& text);
  std::string finish();  // what was held back
  const std::optional<std::string>& matched() const { return matched_; }

 private:
  std::vector<std::string> strings_;
  bool includes_stop_;
  std::string held_;
  std::optional<std::string> matched_;
};

// Decodes tokens and looks for stop strings.
class TextStream {
 public:
  TextStream(std::shared_ptr<const Tokenizer> tokenizer, bool skip_special_tokens, std::vector<std::string> stop,
             bool includes_stop)
      : tokenizer_(std::move(tokenizer)),
        stream_(*tokenizer_, skip_special_tokens),
        stop_(std::move(stop), includes_stop) {}

  std::string add(int32_t token) { return stop_.add(stream_.step(token)); }
  std::string finish() { return stop_.matched() ? std::string() : stop_.add(stream_.finish()) + stop_.finish(); }
  const std::optional<std::string>& matched() const { return stop_.matched(); }

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  DecodeStream stream_;
  StopMatcher stop_;
};

}  // namespace easydel::serve

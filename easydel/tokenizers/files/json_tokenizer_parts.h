// The components of a JsonTokenizer; internal.
#pragma once

#include <mutex>

#include "easydel/tokenizers/files/json_tokenizer.h"
#include "easydel/tokenizers/pipeline/normalizer.h"
#include "easydel/tokenizers/pipeline/post_processor.h"
#include "easydel/tokenizers/pipeline/pre_tokenizer.h"
#include "easydel/tokenizers/pipeline/token_decoder.h"
#include "easydel/tokenizers/vocabulary/added_tokens.h"
#include "easydel/tokenizers/vocabulary/token_model.h"

namespace easydel {

// The scratch memory of one call.
struct JsonTokenizer::Work {
  ModelScratch model;
  std::vector<AddedTokens::Match> matches, inner;
  std::vector<ModelToken> tokens;
};

// Blank characters at the ends of a token's own text.
struct TokenBlanks {
  uint32_t leading, trailing;
};

// The tokens of one text, before truncation and joining.
struct JsonTokenizer::Tokens {
  std::string_view text;
  std::vector<int32_t> ids;
  std::vector<Offset> offsets;
  std::vector<int32_t> words;
  std::vector<TokenBlanks> blanks;  // where offsets are trimmed
};

struct JsonTokenizer::Parts {
  Parts(const JsonField& root);

  std::unique_ptr<Normalizer> normalizer;
  std::unique_ptr<PreTokenizer> pre_tokenizer;
  std::unique_ptr<TokenModel> model;
  AddedTokens added;
  PostProcessor post_processor;
  std::unique_ptr<TokenDecoder> decoder;
  std::optional<Truncation> truncation;
  std::optional<Padding> padding;
  bool always_tracks = false;  // some part uses the origin of characters

  std::mutex mutex;
  std::vector<std::unique_ptr<Work>> idle;
};

// Borrows an idle Work for its lifetime.
class JsonTokenizer::Borrowed {
 public:
  explicit Borrowed(Parts& parts) : parts_(parts) {
    const std::lock_guard lock(parts.mutex);
    if (parts.idle.empty()) {
      work_ = std::make_unique<Work>();
    } else {
      work_ = std::move(parts.idle.back());
      parts.idle.pop_back();
    }
  }
  ~Borrowed() {
    const std::lock_guard lock(parts_.mutex);
    parts_.idle.push_back(std::move(work_));
  }
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;
  Work& operator*() const { return *work_; }

 private:
  Parts& parts_;
  std::unique_ptr<Work> work_;
};

}  // namespace easydel

// What is embedded, scored or ranked, as tokens.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "easydel/serve/openai/context.h"
#include "easydel/serve/openai/fields.h"

namespace easydel::serve {

inline constexpr std::size_t kMaxPoolingInputs = 2048;  // inputs of a request, as OpenAI has it

inline constexpr std::array<RefusedField, 3> kPoolingRefused{{
    {"truncate_prompt_tokens", "an input that is too long is refused, not cut"},
    {"messages", "embeddings are of texts and token ids"},
    {"max_tokens_per_doc", "an input that is too long is refused, not cut"},
}};

struct PoolingCommon {
  ModelChoice model;
  int64_t priority = 0;
  bool add_special_tokens = true;
};
// model, priority, add_special_tokens and user.
PoolingCommon read_pooling_common(Fields& fields, const ServiceContext& context);

struct PoolingPrompt {
  std::vector<int32_t> tokens;
  std::string path;  // for errors: input[3]
};
// A text, texts, token ids or lists of them: never empty.
std::vector<PoolingPrompt> read_pooling_prompts(Fields& fields, std::string_view name, const ServiceContext& context);

struct PoolingText {
  std::string text, path;
};
// A text, or texts: strings or objects with "text", as Jina has documents. Never empty.
std::vector<PoolingText> read_pooling_texts(Fields& fields, std::string_view name);

PoolingPrompt pooling_prompt(const ServiceContext& context, const PoolingText& text, bool add_special_tokens);
// Both as the tokenizer joins pairs.
PoolingPrompt pooling_pair(const ServiceContext& context, const PoolingText& first, const PoolingText& second,
                           bool add_special_tokens);

// 400 for no tokens, too many of them or ids that the model does not have.
void pooling_check(const ServiceContext& context, const PoolingPrompt& prompt);

}  // namespace easydel::serve

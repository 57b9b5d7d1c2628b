// A made tokenizer, and answers drawn at random from what a grammar allows.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "easydel/core/json/json.h"
#include "easydel/serve/grammar/grammar.h"
#include "easydel/tokenizers/tokenizer.h"

namespace easydel::serve::test {

// Byte-level BPE: a token for each byte, some longer ones, "<tool>" (added, not special), "<s>" and "</s>" (special).
std::shared_ptr<const Tokenizer> byte_level_tokenizer();

struct GrammarWorld {
  explicit GrammarWorld(int64_t extra_vocabulary = 13);  // logits beyond the tokenizer's tokens
  std::shared_ptr<const Tokenizer> tokenizer;
  int64_t vocab_size = 0;
  int32_t end = 0;
  std::shared_ptr<GrammarCompiler> compiler;

  std::shared_ptr<const CompiledGrammar> compile(GrammarSpec::Kind kind, std::string text) const {
    return compiler->compile({.kind = kind, .text = std::move(text)});
  }
  std::shared_ptr<const CompiledGrammar> choice(std::vector<std::string> choices) const {
    return compiler->compile({.kind = GrammarSpec::Kind::Choice, .text = "", .choices = std::move(choices)});
  }
  std::vector<int32_t> mask(GrammarMatcher& matcher) const;
  // Whether the grammar takes the text, token by token as the tokenizer splits it, and may end after it.
  bool matches(const CompiledGrammar& grammar, const std::string& text) const;
};

struct Drawn {
  std::string text;
  bool ended = false;  // otherwise it was cut after so many tokens
};
// Prefers bytes that close something, or strings would go on forever.
Drawn draw(const GrammarWorld& world, const CompiledGrammar& grammar, std::mt19937& random, int max_tokens = 1500);

// Of the keywords that the tests use; objects with "properties" have no others. Empty when valid, or what is wrong.
std::string schema_violation(const Json& value, const Json& schema, const Json& root);

}  // namespace easydel::serve::test

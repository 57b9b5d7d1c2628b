// Structured output: which tokens may come next, so that the answer follows a grammar.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "easydel/serve/engine/request.h"

namespace easydel {
class Tokenizer;
}

namespace easydel::serve {

// The state of one answer.
class GrammarMatcher {
 public:
  virtual ~GrammarMatcher() = default;
  // One bit for each token of the vocabulary, bit t % 32 of word t / 32: whether it may come next. False when all may.
  virtual bool fill_mask(std::span<int32_t> words) = 0;
  virtual bool accept(int32_t token) = 0;  // false: the token is not allowed, and nothing changes
  virtual void rollback(int64_t tokens) = 0;
  virtual bool is_terminated() const = 0;  // an end token was accepted, or nothing may follow
};

// A grammar that was compiled for a tokenizer; makes matchers.
class CompiledGrammar {
 public:
  virtual ~CompiledGrammar() = default;
  virtual std::unique_ptr<GrammarMatcher> matcher() const = 0;
};

// Thread-safe; remembers what it has compiled.
class GrammarCompiler {
 public:
  virtual ~GrammarCompiler() = default;
  // ConfigError names what is wrong with the schema, the expression or the grammar.
  virtual std::shared_ptr<const CompiledGrammar> compile(const GrammarSpec& spec) = 0;
};

// Null when this build has no xgrammar. vocab_size: of the model's logits, at least the tokenizer's.
std::shared_ptr<GrammarCompiler> make_grammar_compiler(std::shared_ptr<const Tokenizer> tokenizer, int64_t vocab_size,
                                                       const std::vector<int32_t>& stop_token_ids);

}  // namespace easydel::serve

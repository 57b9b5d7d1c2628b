#include "easydel/core/build_info.h"
#include "easydel/serve/grammar/grammar.h"

#if EASYDEL_HAS_XGRAMMAR
#include <xgrammar/xgrammar.h>

#include <algorithm>
#include <list>
#include <mutex>
#include <thread>

#include "easydel/core/error.h"
#include "easydel/core/text/quoted.h"
#include "easydel/serve/grammar/grammar_text.h"
#include "easydel/serve/grammar/mask.h"
#include "easydel/serve/grammar/utf8_follow.h"
#include "easydel/tokenizers/token_bytes.h"

namespace xgrammar {

// The functions that XGRAMMAR_LOG_CUSTOMIZE asks for.
[[noreturn]] void LogFatalImpl(const std::string& file, int lineno, const std::string& message);
void LogMessageImpl(const std::string& file, int lineno, int level, const std::string& message);

}  // namespace xgrammar

namespace easydel::serve {
namespace {

constexpr int64_t kGrammarCacheBytes = int64_t{256} << 20;
constexpr std::size_t kGrammarCacheEntries = 256;

// xgrammar warns of what it ignores. While one of these lives, its thread keeps the first warning.
class GrammarWarnings {
 public:
  GrammarWarnings() : outer_(current) { current = this; }
  ~GrammarWarnings() { current = outer_; }
  GrammarWarnings(const GrammarWarnings&) = delete;
  GrammarWarnings& operator=(const GrammarWarnings&) = delete;
  static void add(const std::string& message) {
    if (current != nullptr && current->first_.empty()) current->first_ = message;
  }
  const std::string& first() const { return first_; }

 private:
  static thread_local GrammarWarnings* current;
  GrammarWarnings* outer_;
  std::string first_;
};
thread_local GrammarWarnings* GrammarWarnings::current = nullptr;

[[noreturn]] void refuse_grammar(const GrammarSpec& spec, std::string_view problem) {
  fail<ConfigError>("[grammar] ", grammar_kind_name(spec.kind), " is refused: ", printable(problem, 1024));
}

// Runs `make`, and turns what xgrammar throws or warns of into a ConfigError.
template <class Make>
auto guard_grammar(const GrammarSpec& spec, const Make& make) {
  const GrammarWarnings warnings;
  try {
    auto result = make();
    if (!warnings.first().empty()) refuse_grammar(spec, warnings.first());
    return result;
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    refuse_grammar(spec, "it takes more memory than there is.");
  } catch (const std::exception& error) {
    refuse_grammar(spec, error.what());
  }
}

class XgrammarMatcher final : public GrammarMatcher {
 public:
  XgrammarMatcher(const xgrammar::CompiledGrammar& grammar, int64_t vocab_size,
                  std::shared_ptr<const Utf8Follow> follow)
      : matcher_(grammar), vocab_size_(vocab_size), follow_(std::move(follow)) {}

  bool fill_mask(std::span<int32_t> words) override {
    require<ConfigError>(words.size() == mask_words(vocab_size_), "[GrammarMatcher] a mask must have ",
                         mask_words(vocab_size_), " words for ", vocab_size_, " tokens; got ", words.size(), ".");
    std::fill(words.begin(), words.end(), 0);
    if (matcher_.IsTerminated()) return true;
    if (!fill(matcher_, words)) return false;
    if (!accepted_.empty()) follow_->restrict(accepted_.back(), words);
    return true;
  }

  bool accept(int32_t token) override {
    if (!matcher_.AcceptToken(token)) return false;
    accepted_.push_back(token);
    return true;
  }

  void rollback(int64_t tokens) override {
    const auto accepted = static_cast<int64_t>(accepted_.size());
    require<ConfigError>(tokens >= 0 && tokens <= accepted, "[GrammarMatcher] rollback must be of 0 to ", accepted,
                         " tokens, which were accepted; got ", tokens, ".");
    matcher_.Rollback(static_cast<int>(tokens));
    accepted_.resize(static_cast<std::size_t>(accepted - tokens));
  }

  // Complete is not enough: a number may go on. So the mask decides whether anything but an end token may follow.
  bool is_terminated() const override {
    if (matcher_.IsTerminated()) return true;
    if (!matcher_.IsCompleted()) return false;
    std::vector<int32_t> words(mask_words(vocab_size_));
    xgrammar::GrammarMatcher copy = matcher_;  // of the handle, not of the state: filling changes nothing that counts
    if (!fill(copy, words)) return false;
    for (const int stop : matcher_.GetStopTokenIds()) {
      words[static_cast<std::size_t>(stop) / 32] &= ~static_cast<int32_t>(1U << (static_cast<unsigned>(stop) % 32));
    }
    return std::all_of(words.begin(), words.end(), [](int32_t word) { return word == 0; });
  }

 private:
  static bool fill(xgrammar::GrammarMatcher& matcher, std::span<int32_t> words) {
    int64_t shape = static_cast<int64_t>(words.size());
    DLTensor tensor{};
    tensor.data = words.data();
    tensor.device = {kDLCPU, 0};
    tensor.ndim = 1;
    tensor.dtype = xgrammar::GetBitmaskDLType();
    tensor.shape = &shape;
    return matcher.FillNextTokenBitmask(&tensor);
  }

  xgrammar::GrammarMatcher matcher_;
  int64_t vocab_size_;
  std::shared_ptr<const Utf8Follow> follow_;
  std::vector<int32_t> accepted_;
};

class XgrammarGrammar final : public CompiledGrammar {
 public:
  XgrammarGrammar(xgrammar::CompiledGrammar grammar, int64_t vocab_size, std::shared_ptr<const Utf8Follow> follow)
      : grammar_(std::move(grammar)), vocab_size_(vocab_size), follow_(std::move(follow)) {}
  std::unique_ptr<GrammarMatcher> matcher() const override {
    return std::make_unique<XgrammarMatcher>(grammar_, vocab_size_, follow_);
  }
  std::size_t bytes() const { return grammar_.MemorySizeBytes(); }

 private:
  xgrammar::CompiledGrammar grammar_;
  int64_t vocab_size_;
  std::shared_ptr<const Utf8Follow> follow_;
};

// The most recently used grammars, up to a number of them and of bytes. Not thread-safe.
class GrammarCache {
 public:
  using Value = std::shared_ptr<const XgrammarGrammar>;

  Value find(const GrammarSpec& spec) {
    const auto at = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.spec == spec; });
    if (at == entries_.end()) return nullptr;
    entries_.splice(entries_.begin(), entries_, at);
    return at->value;
  }

  void insert(const GrammarSpec& spec, Value value) {
    if (find(spec)) return;
    const std::size_t bytes = value->bytes() + spec.text.size();
    entries_.push_front({spec, std::move(value), bytes});
    bytes_ += bytes;
    while (entries_.size() > kGrammarCacheEntries ||
           (entries_.size() > 1 && bytes_ > static_cast<std::size_t>(kGrammarCacheBytes))) {
      bytes_ -= entries_.back().bytes;
      entries_.pop_back();
    }
  }

 private:
  struct Entry {
    GrammarSpec spec;
    Value value;
    std::size_t bytes;
  };
  std::list<Entry> entries_;
  std::size_t bytes_ = 0;
};

class XgrammarCompiler final : public GrammarCompiler {
 public:
  XgrammarCompiler(std::shared_ptr<const Tokenizer> tokenizer, int64_t vocab_size, std::vector<int32_t> stop_token_ids)
      : tokenizer_(std::move(tokenizer)),
        vocab_size_(vocab_size),
        stop_token_ids_(std::move(stop_token_ids)),
        plain_(*this, /*with_special=*/false) {}

  std::shared_ptr<const CompiledGrammar> compile(const GrammarSpec& spec) override {
    {
      const std::lock_guard lock(mutex_);
      if (auto found = cache_.find(spec)) return found;
    }
    check_grammar(spec);
    auto compiled = guard_grammar(spec, [&] { return compile_checked(spec); });
    const std::lock_guard lock(mutex_);
    cache_.insert(spec, compiled);
    return compiled;
  }

 private:
  // A vocabulary and the compiler for it.
  struct Side {
    Side(const XgrammarCompiler& owner, bool with_special) : Side(owner, owner.vocabulary(with_special)) {}
    Side(const XgrammarCompiler& owner, const std::vector<std::string>& tokens)
        : info(tokens, xgrammar::VocabType::RAW, static_cast<int>(owner.vocab_size_), owner.stop_token_ids_),
          compiler(info, threads(), /*cache_enabled=*/true, kGrammarCacheBytes),
          follow(std::make_shared<const Utf8Follow>(tokens)) {}
    static int threads() { return static_cast<int>(std::clamp(std::thread::hardware_concurrency() / 2, 1U, 8U)); }
    xgrammar::TokenizerInfo info;
    xgrammar::GrammarCompiler compiler;
    std::shared_ptr<const Utf8Follow> follow;
  };

  // A token without bytes may never come next. Special tokens leave no text behind, so they must not pass for text.
  std::vector<std::string> vocabulary(bool with_special) const {
    const TokenBytes bytes_of(*tokenizer_);
    std::vector<std::string> tokens(static_cast<std::size_t>(vocab_size_));
    for (int32_t id = 0; id < vocab_size_; ++id) {
      if (!with_special && tokenizer_->is_special(id)) continue;
      std::string bytes = bytes_of(id).value_or("");
      if (Utf8Follow::is_possible(bytes)) tokens[static_cast<std::size_t>(id)] = std::move(bytes);
    }
    return tokens;
  }

  // Tags are often made of special tokens: there these count as their text.
  Side& side_of(const GrammarSpec& spec) {
    if (spec.kind != GrammarSpec::Kind::StructuralTag) return plain_;
    std::call_once(tags_once_, [&] { tags_ = std::make_unique<Side>(*this, /*with_special=*/true); });
    return *tags_;
  }

  static xgrammar::Grammar read_tags(const std::string& text, const xgrammar::TokenizerInfo& info) {
    auto result = xgrammar::Grammar::FromStructuralTag(text, info);
    if (const auto* error = std::get_if<xgrammar::StructuralTagError>(&result))
      std::visit([](const auto& each) { throw each; }, *error);
    return std::get<xgrammar::Grammar>(result);
  }

  static xgrammar::CompiledGrammar compile_text(const GrammarSpec& spec, Side& side) {
    using Kind = GrammarSpec::Kind;
    // Each is read twice: once for warnings, which would be lost when the compiler has the grammar in its cache.
    switch (spec.kind) {
      case Kind::JsonObject:
        return side.compiler.CompileJSONSchema(std::string(kAnyObjectSchema), true, std::nullopt, std::nullopt, false);
      case Kind::JsonSchema:
        check_size(xgrammar::Grammar::FromJSONSchema(spec.text));
        return side.compiler.CompileJSONSchema(spec.text);
      case Kind::Regex:
        check_size(xgrammar::Grammar::FromRegex(spec.text));
        return side.compiler.CompileRegex(spec.text);
      case Kind::Ebnf:
        check_size(xgrammar::Grammar::FromEBNF(spec.text));
        return side.compiler.CompileGrammar(spec.text);
      case Kind::Choice: return side.compiler.CompileGrammar(choice_ebnf(spec.choices));
      case Kind::StructuralTag: break;
    }
    check_size(read_tags(spec.text, side.info));
    return side.compiler.CompileStructuralTag(spec.text);
  }

  // Compiling takes time for each state of the grammar and each token.
  static void check_size(const xgrammar::Grammar& grammar) {
    const std::size_t size = grammar.ToString().size();
    require<ConfigError>(size <= kMaxGrammarBytes, "[grammar] a grammar must not exceed ", kMaxGrammarBytes,
                         " bytes when written out; this one has ", size, ".");
  }

  std::shared_ptr<const XgrammarGrammar> compile_checked(const GrammarSpec& spec) {
    Side& side = side_of(spec);
    auto compiled = std::make_shared<const XgrammarGrammar>(compile_text(spec, side), vocab_size_, side.follow);
    std::vector<int32_t> words(mask_words(vocab_size_));
    if (compiled->matcher()->fill_mask(words) &&
        std::all_of(words.begin(), words.end(), [](int32_t word) { return word == 0; })) {
      refuse_grammar(spec, "no token of the vocabulary can begin an answer.");
    }
    return compiled;
  }

  const std::shared_ptr<const Tokenizer> tokenizer_;
  const int64_t vocab_size_;
  const std::vector<int32_t> stop_token_ids_;
  Side plain_;
  std::once_flag tags_once_;
  std::unique_ptr<Side> tags_;
  std::mutex mutex_;
  GrammarCache cache_;
};

}  // namespace

std::shared_ptr<GrammarCompiler> make_grammar_compiler(std::shared_ptr<const Tokenizer> tokenizer, int64_t vocab_size,
                                                       const std::vector<int32_t>& stop_token_ids) {
  constexpr int64_t kMaxVocabulary = int64_t{1} << 24;
  require<ConfigError>(tokenizer != nullptr, "[grammar] a tokenizer is needed.");
  require<ConfigError>(vocab_size >= tokenizer->vocab_size() && vocab_size <= kMaxVocabulary,
                       "[grammar] vocab_size must be ", tokenizer->vocab_size(), ", the tokenizer's, to ",
                       kMaxVocabulary, "; got ", vocab_size, ".");
  for (const int32_t id : stop_token_ids) {
    require<ConfigError>(id >= 0 && id < vocab_size, "[grammar] a stop token must be below ", vocab_size,
                         ", the size of the vocabulary; got ", id, ".");
  }
  return std::make_shared<XgrammarCompiler>(std::move(tokenizer), vocab_size, stop_token_ids);
}

}  // namespace easydel::serve

namespace xgrammar {

void LogFatalImpl(const std::string&, int, const std::string& message) { throw std::runtime_error(message); }

void LogMessageImpl(const std::string&, int, int level, const std::string& message) {
  constexpr int kWarning = 2;
  if (level >= kWarning) easydel::serve::GrammarWarnings::add(message);
}

}  // namespace xgrammar

#else

namespace easydel::serve {

std::shared_ptr<GrammarCompiler> make_grammar_compiler(std::shared_ptr<const Tokenizer>, int64_t,
                                                       const std::vector<int32_t>&) {
  return nullptr;
}

}  // namespace easydel::serve

#endif

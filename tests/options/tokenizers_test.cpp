// What the options of tokenizers, their training and their templates do.
#include <gmock/gmock.h>

#include <cstring>

#include "easydel/core/build_info.h"
#include "easydel/core/files/file.h"
#include "easydel/text/jinja/template.h"
#include "easydel/tokenizers/auto_tokenizer.h"
#include "easydel/tokenizers/bpe/bpe_trainer.h"
#include "easydel/tokenizers/sentencepiece/sentencepiece_tokenizer.h"
#include "tests/support/probe.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/word_tokenizer.h"

namespace easydel::tokenizers_probes {
namespace {

namespace fs = std::filesystem;
using jinja::RenderOptions;
using jinja::Settings;
using testing::ElementsAre;
using testing::HasSubstr;
using testing_support::is_refused;
using testing_support::progress_of;
using testing_support::word_tokenizer;

PROBE(EncodeOptions, add_special_tokens) {
  EXPECT_THAT(word_tokenizer()->encode("a b").ids, ElementsAre(1, 5, 6));
  EXPECT_THAT(word_tokenizer()->encode("a b", {.add_special_tokens = false}).ids, ElementsAre(5, 6));
}
PROBE(EncodeOptions, offsets) {
  EXPECT_THAT(word_tokenizer()->encode("a b").offsets, ElementsAre(Offset{0, 0}, Offset{0, 1}, Offset{2, 3}));
  EXPECT_TRUE(word_tokenizer()->encode("a b", {.offsets = false}).offsets.empty());
}

#if EASYDEL_HAS_PCRE2
// Trained on three texts; `while_reading` is called before the first.
Json trained(const BpeTrainerOptions& options, const std::function<void()>& while_reading = {}) {
  std::size_t next = 0;
  return train_byte_level_bpe(
      [&](std::string& text) {
        if (next == 0 && while_reading) while_reading();
        text = "abcd abcd abcd abcd xy";
        return next++ < 3;
      },
      options);
}
std::size_t merges(const BpeTrainerOptions& options) { return trained(options).at("model").at("merges").size(); }

PROBE(BpeTrainerOptions, vocab_size) {
  EXPECT_EQ(trained({.vocab_size = 258}).at("model").at("vocab").size(), 258U);
  EXPECT_EQ(trained({.vocab_size = 259}).at("model").at("vocab").size(), 259U);
  EXPECT_TRUE(is_refused("vocab_size", [] { trained({.vocab_size = 10}); }));
}
// "xy" is there three times, and " xy" with it.
PROBE(BpeTrainerOptions, min_frequency) { EXPECT_EQ(merges({}), merges({.min_frequency = 4}) + 2); }
PROBE(BpeTrainerOptions, special_tokens) {
  const Json json = trained({.special_tokens = {"<s>", "</s>"}});
  EXPECT_EQ(json.at("model").at("vocab").at("</s>"), Json(1));
  EXPECT_EQ(json.at("added_tokens").size(), 2U);
}
PROBE(BpeTrainerOptions, pattern) {
  EXPECT_EQ(merges({.pattern = "[a-z]"}), 0U);  // a letter is a word
  EXPECT_GT(merges({}), 4U);
}
PROBE(BpeTrainerOptions, max_token_length) {
  EXPECT_TRUE(trained({}).at("model").at("vocab").contains("abcd"));
  EXPECT_FALSE(trained({.max_token_length = 3}).at("model").at("vocab").contains("abcd"));
}

int64_t count_threads() {
  int64_t count = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator("/proc/self/task")) ++count;
  return count;
}

PROBE(BpeTrainerOptions, threads) {
  const auto more = [](int threads) {
    const int64_t before = count_threads();
    int64_t during = 0;
    trained({.threads = threads}, [&] { during = count_threads(); });
    return during - before;
  };
  EXPECT_EQ(more(1), 0);
  EXPECT_EQ(more(4), 4);
  EXPECT_TRUE(is_refused("threads", [] { trained({.threads = -1}); }));
}
PROBE(BpeTrainerOptions, show_progress) {
  EXPECT_EQ(progress_of([] { trained({}); }), "");
  EXPECT_THAT(progress_of([] { trained({.show_progress = true}); }), HasSubstr("counting words"));
}
#endif

// sentencepiece ------------------------------------------------------------------------------------------------------

// A model of these pieces, as protocol buffers: <unk> 0, <s> 1, </s> 2, ▁ 3, a 4, b 5, <x> 6.
std::string varint(uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  return out + static_cast<char>(value);
}
std::string piece(const std::string& text, int type = 1) {
  std::string score(4, '\0');
  const float value = -1;
  std::memcpy(score.data(), &value, 4);
  const std::string body = varint(1 << 3 | 2) + varint(text.size()) + text + varint(2 << 3 | 5) + score +
                           varint(3 << 3) + varint(static_cast<uint64_t>(type));
  return varint(1 << 3 | 2) + varint(body.size()) + body;
}
const std::string kPieces =
    piece("<unk>", 2) + piece("<s>", 3) + piece("</s>", 3) + piece("▁") + piece("a") + piece("b") + piece("<x>", 3);

#if EASYDEL_HAS_SENTENCEPIECE
std::vector<int32_t> pieces_of(const std::string& text, const SentencePieceOptions& options) {
  return SentencePieceTokenizer::from_bytes(kPieces, options)->encode_ids(text);
}

PROBE(SentencePieceOptions, add_bos) {
  EXPECT_THAT(pieces_of("ab", {}), ElementsAre(3, 4, 5));
  EXPECT_THAT(pieces_of("ab", {.add_bos = true}), ElementsAre(1, 3, 4, 5));
}
PROBE(SentencePieceOptions, add_eos) { EXPECT_THAT(pieces_of("ab", {.add_eos = true}), ElementsAre(3, 4, 5, 2)); }
PROBE(SentencePieceOptions, bos_token) {
  EXPECT_THAT(pieces_of("a", {.add_bos = true, .bos_token = "<x>"}), ElementsAre(6, 3, 4));
}
PROBE(SentencePieceOptions, eos_token) {
  EXPECT_THAT(pieces_of("a", {.add_eos = true, .eos_token = "<x>"}), ElementsAre(3, 4, 6));
}
PROBE(SentencePieceOptions, legacy) {
  const std::vector<SentencePieceAddedToken> added = {{.id = 7, .content = "<t>"}};
  EXPECT_THAT(pieces_of("<t>a", {.added_tokens = added}), ElementsAre(7, 3, 4));
  EXPECT_THAT(pieces_of("<t>a", {.legacy = false, .added_tokens = added}), ElementsAre(7, 4));
}
PROBE(SentencePieceOptions, added_tokens) {
  EXPECT_EQ(pieces_of("<t>", {.added_tokens = {{.id = 7, .content = "<t>"}}}).at(0), 7);
  const std::vector<int32_t> without = pieces_of("<t>", {});
  EXPECT_EQ(std::count(without.begin(), without.end(), 7), 0);
}
#endif

// Templates ----------------------------------------------------------------------------------------------------------

PROBE(RenderOptions, now) {
  std::tm now{};
  now.tm_year = 101;
  now.tm_mday = 1;
  EXPECT_EQ(jinja::Template("{{ strftime_now('%Y') }}").render(Json::object(), {.now = now}).text, "2001");
}

std::string rendered(const char* source, const Settings& settings = {}) {
  return jinja::Template(source, {}, settings).render(Json::object()).text;
}

PROBE(Settings, trim_blocks) {
  EXPECT_EQ(rendered("{% if true %}\nx{% endif %}"), "x");
  EXPECT_EQ(rendered("{% if true %}\nx{% endif %}", {.trim_blocks = false}), "\nx");
}
PROBE(Settings, lstrip_blocks) {
  EXPECT_EQ(rendered("  {% if true %}x{% endif %}"), "x");
  EXPECT_EQ(rendered("  {% if true %}x{% endif %}", {.lstrip_blocks = false}), "  x");
}
PROBE(Settings, keep_trailing_newline) {
  EXPECT_EQ(rendered("x\n"), "x");
  EXPECT_EQ(rendered("x\n", {.keep_trailing_newline = true}), "x\n");
}
PROBE(Settings, strict_undefined) {
  EXPECT_EQ(rendered("{{ missing }}"), "");
  EXPECT_TRUE(is_refused("missing", [] { rendered("{{ missing }}", {.strict_undefined = true}); }));
}

// What stands beside a tokenizer -------------------------------------------------------------------------------------

PROBE(TokenizerConfig, special_tokens) {
  EXPECT_EQ(word_tokenizer().config().special_token("eos_token"), "</s>");
  EXPECT_EQ(word_tokenizer().config().template_variables().at("bos_token"), Json("<s>"));
}
PROBE(TokenizerConfig, extra_special_tokens) {
  EXPECT_THAT(word_tokenizer().config().extra_special_tokens, ElementsAre("<end>"));
}
PROBE(TokenizerConfig, model_max_length) { EXPECT_EQ(word_tokenizer().config().model_max_length, 64); }
PROBE(TokenizerConfig, tokenizer_class) {
  EXPECT_EQ(word_tokenizer().config().tokenizer_class, "PreTrainedTokenizerFast");
}
PROBE(TokenizerConfig, chat_templates) {
  const Json messages = Json::parse(R"([{"role": "user", "content": "a"}])");
  EXPECT_EQ(word_tokenizer().apply_chat_template({.messages = messages}).text, "a ");
}
PROBE(TokenizerConfig, values) { EXPECT_EQ(word_tokenizer().config().values.at("pad_token"), Json("<pad>")); }

#if EASYDEL_HAS_SENTENCEPIECE
std::vector<int32_t> ids_with(const char* config) {
  const TemporaryDirectory directory;
  write_file_atomically(directory / "tokenizer.model", kPieces);
  write_file_atomically(directory / "tokenizer_config.json", config);
  return AutoTokenizer::from_directory(directory.path())->encode_ids("a");
}

PROBE(TokenizerConfig, add_bos_token) {
  EXPECT_THAT(ids_with("{}"), ElementsAre(1, 3, 4));
  EXPECT_THAT(ids_with(R"({"add_bos_token": false})"), ElementsAre(3, 4));
}
PROBE(TokenizerConfig, add_eos_token) { EXPECT_THAT(ids_with(R"({"add_eos_token": true})"), ElementsAre(1, 3, 4, 2)); }
#endif

}  // namespace
}  // namespace easydel::tokenizers_probes

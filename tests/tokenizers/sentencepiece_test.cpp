// Side by side with the sentencepiece package, whose library is newer than Debian's.
#include <gmock/gmock.h>

#include <cstdlib>

#include "easydel/core/build_info.h"
#include "easydel/core/error.h"
#include "easydel/core/file.h"
#include "easydel/core/json.h"
#include "easydel/tokenizers/sentencepiece_tokenizer.h"
#include "tests/support/python.h"
#include "tests/support/temporary_directory.h"

#if EASYDEL_HAS_SENTENCEPIECE
namespace easydel {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

// Models and what the package makes of them; trained once for all tests.
const TemporaryDirectory& models() {
  static const TemporaryDirectory directory;
  static const bool made = [] {
    const char* texts = std::getenv("EASYDEL_DRAWS");
    run_python("sentencepiece_peer.py", {directory.path().string(), "5", texts ? texts : "1000"});
    return true;
  }();
  EXPECT_TRUE(made);
  return directory;
}

std::vector<int32_t> ids_of(const Json& list) {
  std::vector<int32_t> ids;
  for (const Json& id : list.as_array()) ids.push_back(static_cast<int32_t>(id.as_int()));
  return ids;
}

std::string text_of(const Json& hex) {
  std::string text;
  const std::string& digits = hex.as_string();
  for (std::size_t i = 0; i < digits.size(); i += 2) {
    text += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
  }
  return text;
}

std::vector<Offset> offsets_of(const Json& list) {
  std::vector<Offset> offsets;
  for (const Json& pair : list.as_array()) {
    offsets.push_back({static_cast<uint32_t>(pair.at(0).as_int()), static_cast<uint32_t>(pair.at(1).as_int())});
  }
  return offsets;
}

TEST(SentencePieceParity, IdsOffsetsAndTextsAreThePackages) {
  int compared = 0;
  for (const std::string& file : list_directory(models().path())) {
    if (!file.ends_with(".json")) continue;
    const std::string name = file.substr(0, file.size() - 5);
    const Json peer = Json::parse_file((models() / file).string());
    const auto tokenizer = SentencePieceTokenizer::open(models() / (name + ".model"));
    for (const Json& test : peer.at("cases").as_array()) {
      const std::string text = text_of(test.at("text"));
      const auto encoding = tokenizer->encode(text);
      const auto expected = ids_of(test.at("ids"));
      const std::string said = concat(name, " with ", testing::PrintToString(text));
      EXPECT_EQ(encoding.ids, expected) << said;
      EXPECT_EQ(tokenizer->encode_ids(text), expected) << said;
      EXPECT_EQ(encoding.offsets, offsets_of(test.at("offsets"))) << said;
      EXPECT_EQ(tokenizer->decode(expected), text_of(test.at("decoded"))) << said;
      EXPECT_EQ(tokenizer->decode(ids_of(test.at("other_ids"))), text_of(test.at("other_decoded")))
          << name << " with " << test.at("other_ids").dump();
      ++compared;
    }
  }
  EXPECT_GE(compared, 4000);
}

TEST(SentencePieceParity, VocabulariesAndKindsOfPiecesAreThePackages) {
  for (const std::string& file : list_directory(models().path())) {
    if (!file.ends_with(".json")) continue;
    const Json peer = Json::parse_file((models() / file).string());
    const auto tokenizer = SentencePieceTokenizer::open(models() / (file.substr(0, file.size() - 5) + ".model"));
    const auto& vocab = peer.at("vocab").as_array();
    EXPECT_EQ(tokenizer->vocab_size(), static_cast<int64_t>(vocab.size()));
    const auto control = ids_of(peer.at("control")), bytes = ids_of(peer.at("bytes"));
    const auto id = [&](const char* name) { return peer.at(name).as_int(); };
    for (int32_t i = 0; i < tokenizer->vocab_size(); ++i) {
      EXPECT_EQ(tokenizer->id_to_token(i), vocab[i].as_string());
      EXPECT_EQ(tokenizer->token_to_id(vocab[i].as_string()), i);
      EXPECT_EQ(tokenizer->is_special(i), std::count(control.begin(), control.end(), i) > 0 || i == id("unk"));
      EXPECT_EQ(tokenizer->is_byte(i), std::count(bytes.begin(), bytes.end(), i) > 0);
    }
    EXPECT_EQ(tokenizer->bos_id().value_or(-1), id("bos"));
    EXPECT_EQ(tokenizer->eos_id().value_or(-1), id("eos"));
    EXPECT_EQ(tokenizer->unk_id().value_or(-1), id("unk"));
    EXPECT_EQ(tokenizer->pad_id().value_or(-1), id("pad"));
    EXPECT_EQ(tokenizer->id_to_token(-1), std::nullopt);
    EXPECT_EQ(tokenizer->id_to_token(static_cast<int32_t>(vocab.size())), std::nullopt);
    EXPECT_EQ(tokenizer->token_to_id("no such piece"), std::nullopt);
    EXPECT_EQ(tokenizer->token_to_id(""), std::nullopt);
  }
}

}  // namespace
}  // namespace easydel
#endif
